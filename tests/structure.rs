//! How the source is built: data flows down the list of modules, files hold one idea, unsafe code has one room.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose libraries list their modules in the order of the data.
const LIBRARIES: [&str; 3] = ["traces", "generator", "replayer"];

/// Lines of a file before its tests.
const LONGEST: usize = 400;

#[test]
fn no_module_uses_one_that_is_declared_below_it() {
    let mut faults = Vec::new();
    for library in LIBRARIES {
        let source = root().join(library).join("src");
        check_order(&source.join("lib.rs"), &source, "crate", &mut faults);
    }
    assert!(faults.is_empty(), "data flows one way:\n{}", faults.join("\n"));
}

#[test]
fn the_order_test_sees_each_way_to_name_a_later_module() {
    let later = ["report".to_owned()];
    for text in [
        "use crate::report::Summary;",
        "use crate::{clock, report::{self, Summary}};",
        "fn f() { crate::report::write() }",
        "use crate::{\n    engine::{Engine, Poll},\n    report,\n};",
    ] {
        assert_eq!(uses("crate", &code(text)).filter(|name| later.contains(name)).count(), 1, "{text}");
    }
    for text in [
        "//! see [`crate::report`]\nuse crate::reporter::X;",
        "#[cfg(test)]\nuse crate::report;",
        "use crate::engine::report;",
    ] {
        assert_eq!(uses("crate", &code(text)).filter(|name| later.contains(name)).count(), 0, "{text}");
    }
}

#[test]
fn no_file_is_longer_than_one_idea() {
    let sources = sources();
    let tests: Vec<_> = sources.iter().flat_map(|path| test_modules(path)).collect();
    let long: Vec<_> = sources
        .into_iter()
        .filter(|path| !tests.contains(path))
        .map(|path| (before_tests(&read(&path)).lines().count(), path))
        .filter(|(lines, _)| *lines > LONGEST)
        .map(|(lines, path)| format!("{}: {lines} lines before its tests", path.display()))
        .collect();
    assert!(long.is_empty(), "at most {LONGEST}:\n{}", long.join("\n"));
}

#[test]
fn unsafe_code_stands_under_net_sys_and_in_the_allocator_that_counts() {
    for path in sources().into_iter().filter(|path| *path != root().join(file!())) {
        let text = code(&read(&path));
        let words = ["unsafe {", "unsafe fn", "unsafe impl", "allow(unsafe_code", "expect(unsafe_code"];
        let found = words.iter().find(|word| text.contains(*word));
        let inside = path.starts_with(root().join("replayer/src/net/sys"))
            || path == root().join("replayer/src/net/sys.rs")
            || path == root().join("tests/fuzz/memory.rs");
        assert!(inside || found.is_none(), "{}: {}", path.display(), found.unwrap());
        let (blocks, reasons) = (text.matches("unsafe {").count(), read(&path).matches("// SAFETY:").count());
        assert!(reasons >= blocks, "{}: {blocks} unsafe blocks, {reasons} reasons", path.display());
    }
}

#[test]
fn libraries_neither_print_nor_exit() {
    for path in sources() {
        let inside = LIBRARIES.iter().any(|library| path.starts_with(root().join(library).join("src")));
        let text = code(&read(&path));
        for word in ["println!", "eprintln!", "process::exit"] {
            assert!(!inside || !text.contains(word), "{}: {word}", path.display());
        }
    }
}

/// Checks the children of one module file against each other, then each child's own.
fn check_order(module: &Path, folder: &Path, path: &str, faults: &mut Vec<String>) {
    let children = children(&read(module));
    for (place, child) in children.iter().enumerate() {
        let later = &children[place + 1..];
        let nested = folder.join(child);
        let file = [folder.join(format!("{child}.rs")), nested.join("mod.rs")]
            .into_iter()
            .find(|file| file.exists());
        let file = file.unwrap_or_else(|| panic!("{}: no file for `mod {child}`", module.display()));
        for source in std::iter::once(file.clone()).chain(rust_files(&nested)) {
            let text = code(&read(&source));
            let from_parent = if source == file { uses("super", &text).collect() } else { Vec::new() };
            for name in uses(path, &text).chain(from_parent) {
                if later.contains(&name) {
                    faults.push(format!("{}: uses {path}::{name}, declared below {child}", source.display()));
                }
            }
        }
        check_order(&file, &nested, &format!("{path}::{child}"), faults);
    }
}

/// The names that follow `prefix::`, alone or as the first names of a group.
fn uses<'a>(prefix: &'a str, text: &'a str) -> impl Iterator<Item = String> + 'a {
    let start = format!("{prefix}::");
    text.match_indices(&start)
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'))
        .flat_map(|(at, _)| first_names(&text[at + start.len()..]))
        .collect::<Vec<_>>()
        .into_iter()
}

fn first_names(text: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let Some(group) = text.strip_prefix('{') else { return vec![name(text)] };
    let (mut depth, mut names, mut item) = (1, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => names.push(name(&std::mem::take(&mut item))),
            _ if depth == 1 => item.push(c),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names.push(name(&item));
    names
}

fn children(text: &str) -> Vec<String> {
    before_tests(text)
        .lines()
        .filter_map(|line| {
            let line = line
                .trim()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ")
                .trim_start_matches("pub ");
            Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
        })
        .collect()
}

/// The files of the modules that a file declares for tests alone.
fn test_modules(path: &Path) -> Vec<PathBuf> {
    let text = read(path);
    let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => path.parent().unwrap().to_owned(),
        _ => path.with_extension(""),
    };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let declared = lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| pair[1].rsplit_once("mod ").and_then(|(_, name)| name.strip_suffix(';')));
    declared.map(|name| folder.join(format!("{name}.rs"))).collect()
}

/// The text before the tests, without comments.
fn code(text: &str) -> String {
    before_tests(text)
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

fn before_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]").map_or(text, |(before, _)| before)
}

fn sources() -> Vec<PathBuf> {
    ["src", "tests", "traces", "generator", "replayer"]
        .iter()
        .flat_map(|part| rust_files(&root().join(part)))
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
