//! Turns the control protocol into Rust, with a protobuf compiler that is a library: no `protoc` is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto/control.proto");
    let descriptors = protox::compile(["proto/control.proto"], ["proto"])?;
    tonic_prost_build::compile_fds(descriptors)?;
    Ok(())
}
