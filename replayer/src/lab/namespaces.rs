//! Network namespaces: a switch in one, a host in each of the others.
//!
//! A process that does nothing holds the switch's namespace; agents make their own below it. Namespaces have no names
//! and are gone with their last process. Who is not root does all of it in a user namespace of the holder's.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use traces::id::NicId;
use traces::manifest::{Manifest, Nic};
use traces::unit::BitRate;

use super::error::LabError;
use super::shape::Bucket;
use crate::dataplane::NicAddress;
use crate::net::Place;

/// The switch's namespace, alive as long as this value.
#[derive(Debug)]
pub(super) struct Namespaces {
    holder: Child,
    user: bool,
}

impl Namespaces {
    /// Makes the switch's namespace and the switch.
    pub(super) fn new(manifest: &Manifest) -> Result<Self, LabError> {
        let user = !rustix::process::geteuid().is_root();
        let mut command = Command::new("unshare");
        if user {
            command.args(["--user", "--map-root-user"]);
        }
        // `cat` ends when its standard input does: when this process has ended, however it has.
        command.args(["--net", "sh", "-c", "echo; exec cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut holder =
            command.spawn().map_err(|source| LabError::Spawn { program: "unshare".to_owned(), source })?;
        let mut ready = [0];
        let read = holder.stdout.as_mut().map(|out| out.read(&mut ready));
        if !matches!(read, Some(Ok(1))) {
            let mut said = String::new();
            if let Some(mut stderr) = holder.stderr.take() {
                let _ = stderr.read_to_string(&mut said);
            }
            let how = holder.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
            let program = "unshare --net".to_owned();
            return Err(LabError::Command { program, how, said: said.trim().to_owned() });
        }
        let network = Self { holder, user };
        let mtu = manifest.transport.mtu_bytes;
        network.ip(
            &network.enter(network.holder.id()),
            &format!(
                "link add {BRIDGE} mtu {mtu} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n\
                 link set {BRIDGE} up\n"
            ),
        )?;
        Ok(network)
    }

    /// What starts a program in a new network namespace below the switch's.
    pub(super) fn enter_new(&self) -> Vec<String> {
        let mut words = self.enter(self.holder.id());
        words.extend(["unshare", "--net"].map(str::to_owned));
        words
    }

    /// Gives each host its NICs, and joins them to the switch. `processes` are in the namespaces of the hosts, in
    /// order.
    pub(super) fn connect(
        &mut self,
        manifest: &Manifest,
        processes: &[u32],
        notes: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let mtu = manifest.transport.mtu_bytes;
        let mut switch = String::new();
        for nic in &manifest.nics {
            let (Some(process), name) = (processes.get(nic.host.index()), port(manifest, nic)) else {
                continue;
            };
            let id = nic.id.0;
            switch += &format!(
                "link add port{id} mtu {mtu} type veth peer name {name} address {} mtu {mtu} netns {process}\n\
                 link set port{id} master {BRIDGE} up\n",
                nic.mac
            );
        }
        let at_switch = self.enter(self.holder.id());
        self.ip(&at_switch, &switch)?;
        let mut said = BTreeSet::new();
        for (host, process) in manifest.hosts.iter().zip(processes) {
            let mut lines = "link set lo up\n".to_owned();
            let own: Vec<_> = manifest.nics.iter().filter(|nic| nic.host == host.id).collect();
            for nic in &own {
                lines += &configuration(manifest, nic, own.len());
            }
            let inside = self.enter(*process);
            self.ip(&inside, &lines)?;
            for nic in own {
                let device = port(manifest, nic);
                said.extend(steer(&inside, &device, nic.id));
                said.extend(steer(&at_switch, &format!("port{}", nic.id.0), nic.id));
                said.extend(cut_bundles(&inside, &device));
                said.extend(shape(&inside, &device, &at_switch, nic));
            }
        }
        notes.extend(said);
        Ok(())
    }

    /// What runs a program in the network namespace of a process.
    fn enter(&self, process: u32) -> Vec<String> {
        let mut words = vec!["nsenter".to_owned(), format!("--target={process}"), "--net".to_owned()];
        if self.user {
            words.extend(["--user", "--preserve-credentials"].map(str::to_owned));
        }
        words
    }

    fn ip(&self, inside: &[String], lines: &str) -> Result<(), LabError> {
        let words: Vec<_> = inside.iter().map(String::as_str).chain(["ip", "-batch", "-"]).collect();
        let spawn = |source| LabError::Spawn { program: "ip".to_owned(), source };
        let Some(mut command) = command(&words) else { return Ok(()) };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(spawn)?;
        if let Some(mut stdin) = child.stdin.take() {
            // What it has not read, its exit status and words explain.
            let _ = stdin.write_all(lines.as_bytes());
        }
        let output = child.wait_with_output().map_err(spawn)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        Err(LabError::Command { program: "ip -batch".to_owned(), how: output.status.to_string(), said })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Has one core take what arrives at a device; a note if it can not. A veth by itself leaves it to the core that sent, and
/// frames that two cores sent overtake each other, which a cable never lets them. The settings of devices stand in a
/// `/sys` that belongs to their namespace.
fn steer(inside: &[String], device: &str, nic: NicId) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_CORES);
    let mask = 1_u32 << (nic.index() % cores);
    let script =
        format!("mount -t sysfs none /sys && echo {mask:x} > /sys/class/net/{device}/queues/rx-0/rps_cpus");
    run(inside, "unshare", &["--mount", "sh", "-c", &script])
        .err()
        .map(|why| format!("frames may overtake each other, for several cores carry them: {why}"))
}

/// A veth passes bundles whole if it may: then no frame exists that a capture could show. The receiving side joins them
/// again, as NICs do. A note if it can not be told.
fn cut_bundles(inside: &[String], device: &str) -> Option<String> {
    run(inside, "ethtool", &["-K", device, "tx-udp-segmentation", "off"]).err().map(|_| {
        "ethtool is missing or cannot turn off segmentation offload: bundles of frames cross the testbed \
         whole, so its interfaces count fewer frames than were sent"
            .to_owned()
    })
}

/// Gives a link the rate of the trace's, in both directions; a note on the rate that it has.
fn shape(inside: &[String], device: &str, at_switch: &[String], nic: &Nic) -> Option<String> {
    let rate = BitRate::new(nic.link_bps)?;
    let (Some(of_host), Some(of_switch)) = (Bucket::of_host(rate), Bucket::of_switch(rate)) else {
        return Some(format!(
            "links of {rate} are not shaped: this testbed moves less, so steps may be slower than planned"
        ));
    };
    let shaped = run(inside, "tc", &of_host.words(device))
        .and_then(|()| run(at_switch, "tc", &of_switch.words(&format!("port{}", nic.id.0))));
    Some(match shaped {
        Ok(()) => format!("links shaped to {rate}"),
        Err(why) => format!("links are not shaped: {why}, so steps may be faster than planned"),
    })
}

/// The first address of each NIC, all of them for tests.
pub(super) fn addresses(manifest: &Manifest) -> Result<Vec<NicAddress>, LabError> {
    manifest
        .nics
        .iter()
        .map(|nic| {
            let text = nic.addresses.first().map_or("", String::as_str);
            match text.parse::<IpAddr>() {
                Ok(address) if Place::of(address) == Place::Benchmark => {
                    Ok(NicAddress { nic: nic.id, address })
                }
                _ => Err(LabError::Address { nic: nic.name.clone(), address: text.to_owned() }),
            }
        })
        .collect()
}

/// The lines of `ip` that give a NIC its addresses and neighbours. Neighbours are known from the start, so that no
/// frame waits for ARP. With several NICs in one host, what is sent from an address leaves through its NIC.
fn configuration(manifest: &Manifest, nic: &Nic, nics_of_host: usize) -> String {
    let device = port(manifest, nic);
    let mut lines = format!("link set {device} up\n");
    for address in nic.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
        let network = if address.is_ipv4() { "198.18.0.0/15" } else { "2001:2::/48" };
        let length = if address.is_ipv4() { "15" } else { "48" };
        let nodad = if address.is_ipv4() { "" } else { " nodad" };
        lines += &format!("address add {address}/{length} dev {device}{nodad}\n");
        if nics_of_host > 1 {
            let table = TABLES + nic.id.0;
            let version = if address.is_ipv4() { "" } else { "-6 " };
            lines += &format!("{version}route add {network} dev {device} table {table}\n");
            lines += &format!("{version}rule add from {address} table {table}\n");
        }
    }
    for other in manifest.nics.iter().filter(|other| other.id != nic.id) {
        for address in &other.addresses {
            lines += &format!("neighbour add {address} lladdr {} dev {device} nud permanent\n", other.mac);
        }
    }
    lines
}

/// The name of a NIC's device in its host: `eth0`.
fn port(manifest: &Manifest, nic: &Nic) -> String {
    let before = manifest.nics[..nic.id.index()].iter().filter(|other| other.host == nic.host).count();
    format!("eth{before}")
}

/// Runs a program with arguments in a namespace; why it did not do what it was to.
fn run(inside: &[String], program: &str, arguments: &[impl AsRef<str>]) -> Result<(), String> {
    let words = inside.iter().map(String::as_str).chain([program]);
    let words: Vec<_> = words.chain(arguments.iter().map(AsRef::as_ref)).collect();
    let Some(mut command) = command(&words) else { return Ok(()) };
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    // `nsenter` says that there is no such program, and ends with 127.
    if output.status.code() == Some(127) {
        return Err(format!("{program} is missing"));
    }
    Err(format!("{program} says `{}`", String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")))
}

fn command(words: &[&str]) -> Option<Command> {
    let (first, rest) = words.split_first()?;
    let mut command = Command::new(first);
    command.args(rest);
    Some(command)
}

const BRIDGE: &str = "switch0";

/// Routing tables of NICs count from here; below it are the system's.
const TABLES: u32 = 1_000;

/// Cores that one word of a mask names.
const MOST_CORES: usize = 32;
