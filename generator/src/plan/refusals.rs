//! Every way in which a plan can be wrong that this version knows, and that a plan which is right survives being written.

use miette::Diagnostic;
use proptest::prelude::*;
use rstest::rstest;

use super::{Plan, Words, load};

/// A plan that is right, with a value for each key that the cases below replace.
const RIGHT: &str = r#"version = 1
name = "right"
seed = 1

[model]
family = "gpt"
layers = 4
hidden = 64
heads = 4
ffn = 256
vocab = 1000
learned_positions = 128

[training]
sequence_length = 128
micro_batch = 2
global_batch = 8
steps = 1
activation_dtype = "bf16"
tokens = 100

[parallelism]
tensor = 2
pipeline = 2
data = 2
schedule = "1f1b"
layers_per_stage = [2, 2]
order = "tp-cp-ep-dp-pp"
buckets = "25MiB"

[cluster]
hosts = 4
gpus_per_host = 2
nics_per_host = 2
link = "100Gbit"
addresses = "198.18.0.0/15"
vlan = 100
mtu = 9000

[collectives]
algorithm = "ring"
protocol = "simple"
channels = 4

[transport]
path_mtu = 4096
dscp = 26
ecn = 2
ttl = 255
payload = "pattern"

[timing]
gpu = "a100"
efficiency_percent = 40

[fabric]
model = "ideal"
latency = "2us"
quantum = 16
"#;

fn read(text: &str) -> Result<Plan, Box<super::PlanError>> {
    Plan::read("plan.toml", text, |name| Err(format!("cannot read {name}")))
}

/// The plan with one line replaced; the line must be there.
fn with(line: &str, replacement: &str) -> String {
    let line = format!("\n{line}\n");
    assert_eq!(format!("\n{RIGHT}").matches(&line).count(), 1, "{line}");
    format!("\n{RIGHT}").replacen(&line, &format!("\n{replacement}\n"), 1)[1..].to_owned()
}

#[test]
fn the_plan_that_the_cases_start_from_is_right() {
    read(RIGHT).unwrap();
}

#[rstest]
// What TOML and types refuse.
#[case::syntax("hidden = 64", "hidden = = 64", "extra `=`", "")]
#[case::unknown_table("[fabric]", "[fabrik]", "unknown key `fabrik`", "did you mean `fabric`?")]
#[case::unknown_key("hidden = 64", "hiden = 64", "unknown key `hiden`", "did you mean `hidden`?")]
#[case::twice("hidden = 64", "hidden = 64\nhidden = 64", "duplicate key", "")]
#[case::text_for_number("hosts = 4", "hosts = \"four\"", "invalid type: string", "without quotes")]
#[case::number_for_rate("link = \"100Gbit\"", "link = 100", "invalid type: integer", "carries its unit")]
#[case::negative("hosts = 4", "hosts = -4", "invalid value: integer `-4`", "zero or greater")]
#[case::fraction("hosts = 4", "hosts = 4.5", "invalid type: floating point", "without quotes")]
#[case::no_rate("link = \"100Gbit\"", "", "missing field `link`", "no default")]
#[case::no_version("version = 1", "", "missing field `version`", "no default")]
#[case::other_version("version = 1", "version = 2", "version 2", "write version = 1")]
// Units.
#[case::rate_without_unit("link = \"100Gbit\"", "link = \"100\"", "has no unit", "")]
#[case::rate_with_wrong_unit("link = \"100Gbit\"", "link = \"100GB\"", "unknown unit `GB`", "")]
#[case::rate_of_zero("link = \"100Gbit\"", "link = \"0Gbit\"", "cluster.link", "")]
#[case::size_without_unit("buckets = \"25MiB\"", "buckets = \"25\"", "has no unit", "")]
#[case::time_without_unit("latency = \"2us\"", "latency = \"2\"", "has no unit", "")]
// Words.
#[case::preset("family = \"gpt\"", "preset = \"gpt3\"", "`gpt3`", "did you mean `gpt2`?")]
#[case::family("family = \"gpt\"", "family = \"llama\"", "not available in this version", "gpt")]
#[case::preset_and_family("family = \"gpt\"", "family = \"gpt\"\npreset = \"gpt2\"", "either", "preset")]
#[case::schedule("schedule = \"1f1b\"", "schedule = \"zb-h1\"", "`zb-h1` is not available", "1f1b, gpipe")]
#[case::algorithm("algorithm = \"ring\"", "algorithm = \"tree\"", "`tree` is not available", "ring")]
#[case::protocol("protocol = \"simple\"", "protocol = \"ll128\"", "`ll128` is not available", "simple")]
#[case::payload(
    "payload = \"pattern\"",
    "payload = \"noise\"",
    "`noise` is not available",
    "pattern, zero, random, token"
)]
#[case::dtype("activation_dtype = \"bf16\"", "activation_dtype = \"fp8\"", "`fp8`", "bf16, fp16, fp32")]
#[case::gpu("gpu = \"a100\"", "gpu = \"v100\"", "`v100`", "a100, h100")]
#[case::fabric("model = \"ideal\"", "model = \"clos\"", "`clos` is not available", "ideal")]
#[case::order_twice(
    "order = \"tp-cp-ep-dp-pp\"",
    "order = \"tp-tp-pp\"",
    "not an order",
    "the fastest first"
)]
#[case::order_unknown("order = \"tp-cp-ep-dp-pp\"", "order = \"tp-xp-pp\"", "not an order", "tp-cp-ep-dp-pp")]
// Keys of the language that this version does not build.
#[case::zero("data = 2", "data = 2\nzero = 3", "`zero` is not available in this version", "known: tensor")]
#[case::context("data = 2", "data = 2\ncontext = 2", "`context` is not available", "known: tensor")]
// NICs and queue pairs.
#[case::setup("ttl = 255", "ttl = 255\nsetup = \"tcp\"", "`tcp`", "none, cm")]
#[case::acks("ttl = 255", "ttl = 255\nacks = \"some\"", "`some`", "each, coalesced")]
#[case::profile(
    "ttl = 255",
    "ttl = 255\nnic_profile = \"mlx6-nccl\"",
    "no NIC profile `mlx6-nccl`",
    "mlx5-nccl"
)]
#[case::timeout("ttl = 255", "ttl = 255\ntimeout = 32", "timeout", "between 1 and 31")]
#[case::retries("ttl = 255", "ttl = 255\nretry_count = 8", "retry_count", "between 0 and 7")]
#[case::rnr("ttl = 255", "ttl = 255\nrnr_timer = 32", "rnr_timer", "between 0 and 31")]
#[case::cnp("ttl = 255", "ttl = 255\ncnp_dscp = 64", "cnp_dscp", "between 0 and 63")]
// What does not fit together.
#[case::ranks(
    "data = 2",
    "data = 3",
    "tensor 2 x pipeline 2 x data 3 = 12 ranks, but the cluster has 8 GPUs (4 hosts of 2)",
    "product"
)]
#[case::heads_by_hidden("heads = 4", "heads = 6", "hidden 64 is not a multiple of heads 6", "hidden / heads")]
#[case::heads_by_tensor(
    "heads = 4",
    "heads = 1",
    "tensor degree 2 does not divide 1 heads",
    "heads / tensor"
)]
#[case::ffn_by_tensor("ffn = 256", "ffn = 255", "tensor degree 2 does not divide 255 ffn", "ffn / tensor")]
#[case::stages_count(
    "layers_per_stage = [2, 2]",
    "layers_per_stage = [4]",
    "names 1 stages, but pipeline is 2",
    "one number a stage"
)]
#[case::stages_sum(
    "layers_per_stage = [2, 2]",
    "layers_per_stage = [2, 3]",
    "sums to 5, but the model has 4",
    ""
)]
#[case::stages_empty(
    "layers_per_stage = [2, 2]",
    "layers_per_stage = [4, 0]",
    "layers_per_stage",
    "at least one layer"
)]
#[case::batch(
    "global_batch = 8",
    "global_batch = 6",
    "global_batch 6 is not a multiple of micro_batch 2 x data 2 = 4",
    "4 would be"
)]
#[case::long(
    "sequence_length = 128",
    "sequence_length = 129",
    "128 learned positions",
    "at least the sequence length"
)]
#[case::text_and_tokens(
    "tokens = 100",
    "tokens = 100\ntext = \"a.txt\"",
    "both `text` and `tokens`",
    "leave one out"
)]
#[case::no_text("tokens = 100", "text = \"a.txt\"", "cannot read a.txt", "tokens = N")]
#[case::nics("nics_per_host = 2", "nics_per_host = 3", "3 NICs cannot be shared evenly by 2 GPUs", "divisor")]
// Ranges.
#[case::no_layers("layers = 4", "layers = 0", "model.layers", "between 1 and")]
#[case::deep("layers = 4", "layers = 10001", "model.layers", "between 1 and 10000")]
#[case::no_steps("steps = 1", "steps = 0", "training.steps", "between 1 and")]
#[case::no_data("data = 2", "data = 0", "parallelism.data", "between 1 and")]
#[case::no_hosts("hosts = 4", "hosts = 0", "cluster.hosts", "between 1 and")]
#[case::no_quantum("quantum = 16", "quantum = 0", "fabric.quantum", "at least 1")]
#[case::dscp("dscp = 26", "dscp = 64", "transport.dscp", "")]
#[case::ttl("ttl = 255", "ttl = 0", "transport.ttl", "at least 1")]
#[case::ecn("ecn = 2", "ecn = 3", "ecn 3", "0 (not capable)")]
#[case::vlan("vlan = 100", "vlan = 4095", "cluster.vlan", "")]
#[case::channels("channels = 4", "channels = 65", "65 channels", "between 1 and 64")]
#[case::efficiency(
    "efficiency_percent = 40",
    "efficiency_percent = 101",
    "efficiency_percent",
    "between 1 and 100"
)]
#[case::path_mtu("path_mtu = 4096", "path_mtu = 1500", "path_mtu 1500", "256, 512, 1024, 2048, 4096")]
#[case::mtu("mtu = 9000", "mtu = 4159", "an mtu of 4159 is too small", "at least 4160")]
#[case::addresses(
    "addresses = \"198.18.0.0/15\"",
    "addresses = \"198.18.0.0\"",
    "is not a network",
    "198.18.0.0/15"
)]
#[case::inner_address(
    "addresses = \"198.18.0.0/15\"",
    "addresses = \"198.18.0.1/15\"",
    "not the first address",
    ""
)]
#[case::few_addresses(
    "addresses = \"198.18.0.0/15\"",
    "addresses = \"198.18.0.0/29\"",
    "6 addresses, but there are 8 NICs",
    "shorter prefix"
)]
#[case::vast_model("hidden = 64", "hidden = 16777216", "parameters is beyond", "at most")]
#[case::vast_batch(
    "global_batch = 8",
    "global_batch = 16777216",
    "microbatches over 2 stages are too many",
    "larger micro_batch"
)]
fn a_wrong_plan_is_refused_with_what_would_be_right(
    #[case] line: &str,
    #[case] replacement: &str,
    #[case] what: &str,
    #[case] help: &str,
) {
    let text = with(line, replacement);
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains(what), "{error}");
    let advice = error.help().map(|help| help.to_string()).unwrap_or_default();
    assert!(advice.contains(help), "{advice:?}");
    assert!(error.to_string().starts_with(&format!("plan.toml:{}: ", error.line())), "{error}");
}

#[rstest]
#[case::value("heads = 4", "heads = 6", "hidden = 64")]
#[case::unknown_key("hidden = 64", "hiden = 64", "hiden = 64")]
#[case::unit("link = \"100Gbit\"", "link = \"100\"", "link = \"100\"")]
#[case::table("data = 2", "data = 3", "[parallelism]")]
fn the_line_that_is_shown_is_the_one_to_change(
    #[case] line: &str,
    #[case] replacement: &str,
    #[case] shown: &str,
) {
    let text = with(line, replacement);
    let error = read(&text).unwrap_err();
    assert_eq!(text.lines().nth(error.line() - 1), Some(shown), "{error}");
    let label = error.labels().unwrap().next().unwrap();
    let marked = &text[label.offset()..label.offset() + label.len()];
    assert!(!marked.is_empty() && shown.contains(marked), "{marked:?}");
}

#[test]
fn layers_that_do_not_divide_need_layers_per_stage() {
    let text = with("layers_per_stage = [2, 2]", "").replace("layers = 4", "layers = 5");
    let error = read(&text).unwrap_err();
    assert!(error.to_string().contains("5 layers do not divide into 2 equal stages"), "{error}");
    assert!(error.help().unwrap().to_string().contains("layers_per_stage"));
}

#[test]
fn ipv6_needs_twenty_bytes_more() {
    let text = RIGHT.replace("198.18.0.0/15", "2001:2::/48");
    read(&text.replace("mtu = 9000", "mtu = 4180")).unwrap();
    let error = read(&text.replace("mtu = 9000", "mtu = 4179")).unwrap_err();
    assert!(error.help().unwrap().to_string().contains("at least 4180"));
}

#[test]
fn a_plan_that_does_not_exist_is_answered_with_those_that_do() {
    let error = load::load("no-such-plan").unwrap_err().to_string();
    assert!(error.contains("no-such-plan") && error.contains("tutorial-dp8"), "{error}");
}

#[test]
fn a_plan_reads_its_text_beside_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, RIGHT.replace("tokens = 100", "text = \"words.txt\"")).unwrap();
    let error = load::load(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("words.txt"), "{error}");
    std::fs::write(folder.path().join("words.txt"), "una selva oscura").unwrap();
    let plan = load::load(path.to_str().unwrap()).unwrap();
    let words = Words::Text { name: "words.txt".to_owned(), text: "una selva oscura".to_owned() };
    assert_eq!(plan.training.words, words);
}

proptest! {
    #[test]
    fn a_plan_reads_back_as_it_is_written(
        (tensor, pipeline, data) in (1..5_u32, 1..5_u32, 1..5_u32),
        (layers, microbatches, steps) in (1..4_u32, 1..5_u32, 1..4_u32),
        gpus in prop::sample::select(vec![1_u32, 2, 4]),
        order in prop::sample::select(vec!["tp-cp-ep-dp-pp", "pp-dp-tp", "dp-ep-tp-pp", "tp-pp-dp"]),
        preset in prop::sample::select(vec!["gpt2", "gpt2-xl", ""]),
        addresses in prop::sample::select(vec!["198.18.0.0/15", "2001:2::/48"]),
        path_mtu in prop::sample::select(vec![256_u32, 512, 1024, 2048, 4096]),
        (megabits, nanoseconds, bucket, seed) in (1..1_000_000_u64, 0..5_000_u64, 1..100_000_000_u64, 0..i64::MAX),
        (vlan, schedule) in (prop::option::of(1..4095_u16), prop::sample::select(vec!["1f1b", "gpipe"])),
    ) {
        let hosts = tensor * pipeline * data;
        let model = if preset.is_empty() { "family = \"gpt\"".to_owned() } else { format!("preset = \"{preset}\"") };
        let vlan = vlan.map_or_else(String::new, |vlan| format!("vlan = {vlan}\n"));
        let (all, heads) = (layers * pipeline, tensor);
        let text = format!(
            "version = 1\nname = \"drawn\"\nseed = {seed}\n[model]\n{model}\nlayers = {all}\nhidden = {}\nheads = {heads}\n\
             [training]\nsequence_length = 16\nmicro_batch = 2\nglobal_batch = {}\nsteps = {steps}\ntokens = 7\n\
             [parallelism]\ntensor = {tensor}\npipeline = {pipeline}\ndata = {}\norder = \"{order}\"\n\
             schedule = \"{schedule}\"\nbuckets = \"{bucket}B\"\n\
             [cluster]\nhosts = {hosts}\ngpus_per_host = {gpus}\nlink = \"{megabits}Mbit\"\naddresses = \"{addresses}\"\n{vlan}\
             [transport]\npath_mtu = {path_mtu}\n[fabric]\nlatency = \"{nanoseconds}ns\"\n",
            8 * tensor, 2 * data * gpus * microbatches, data * gpus,
        );
        let plan = read(&text).unwrap();
        prop_assert_eq!(plan.training.microbatches, microbatches);
        prop_assert_eq!(&read(&plan.to_toml()).unwrap(), &plan);
    }
}
