//! The figures that the paper "The Life of a Token" works with.

use serde_json::Value;

use crate::program::{result, root};

fn explain(plan: &str) -> Value {
    serde_json::from_str(&result(root(), &["explain", plan, "--json"])).expect("one JSON document")
}

/// The sum of a field over the operations of all stages that a test chooses.
fn sum(explained: &Value, field: &str, chosen: impl Fn(&str) -> bool) -> u64 {
    let stages = explained["stages"].as_array().expect("stages");
    let operations = stages.iter().flat_map(|stage| stage["operations"].as_array().expect("operations"));
    operations
        .filter(|operation| chosen(operation["class"].as_str().expect("class")))
        .map(|operation| operation[field].as_u64().expect("an integer"))
        .sum()
}

#[test]
fn gpt2_has_its_parameters_its_activation_and_its_gradients() {
    for plan in ["tutorial-dp8", "tutorial-pp8", "tutorial-tp8"] {
        let explained = explain(plan);
        assert_eq!(explained["model"]["parameters"], 124_439_808, "{plan}");
        assert_eq!(explained["tensors"]["activation_bytes"], 50_331_648, "{plan}");
        assert_eq!(explained["tensors"]["parameter_bytes"], 248_879_616, "{plan}");
        assert_eq!(explained["ranks"]["world"], 8, "{plan}");
    }
}

#[test]
fn data_parallelism_sends_seven_quarters_of_the_gradients() {
    let explained = explain("tutorial-dp8");
    assert_eq!(sum(&explained, "payload_bytes", |class| class == "dp_gradients"), 248_879_616);
    assert_eq!(sum(&explained, "wire_bytes", |class| class == "dp_gradients"), 435_539_328);
}

#[test]
fn tensor_parallelism_reduces_each_layer_four_times() {
    let explained = explain("tutorial-tp8");
    let layers = |class: &str| class == "tp_forward" || class == "tp_backward";
    assert_eq!(sum(&explained, "count", layers), 48);
    assert_eq!(sum(&explained, "payload_bytes", layers), 2_415_919_104);
    assert_eq!(sum(&explained, "wire_bytes", layers), 4_227_858_432);
}

#[test]
fn pipeline_parallelism_passes_seven_boundaries_both_ways() {
    let explained = explain("tutorial-pp8");
    let boundaries = |class: &str| class == "pp_forward" || class == "pp_backward";
    assert_eq!(sum(&explained, "wire_bytes", boundaries), 704_643_072);
    let layers: Vec<_> =
        explained["stages"].as_array().unwrap().iter().map(|stage| stage["layers"].clone()).collect();
    assert_eq!(layers, [2, 2, 2, 2, 1, 1, 1, 1]);
}

#[test]
fn dantes_first_verse_is_twelve_tokens() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("verse.txt"), "Nel mezzo del cammin di nostra vita").unwrap();
    let text = result(folder.path(), &["explain", "tutorial-dp8", "--text", "verse.txt", "--json"]);
    let explained: Value = serde_json::from_str(&text).unwrap();
    let ids = [45, 417, 502, 47802, 1619, 12172, 1084, 2566, 18216, 430, 410, 5350];
    assert_eq!(explained["text"]["ids"], Value::from(ids.to_vec()));
    assert_eq!(explained["text"]["tokens"], 12);
    assert_eq!(explained["text"]["words"], 7);
    assert_eq!(explained["text"]["bytes"], 35);
}
