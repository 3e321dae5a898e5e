//! Names of tests, which state a claim.

use super::Document;

/// A claim has at least so many words.
const LEAST_WORDS: usize = 3;
/// Tests that other tests start in a process of its own, by name. They claim nothing.
const ROLES: [&str; 5] = ["child_process", "program", "provider", "role", "run"];

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents.iter().filter(|document| document.has_extension("rs")) {
        let mut is_test = false;
        for (index, line) in document.text.lines().enumerate() {
            let line = line.trim();
            is_test |= line == "#[test]";
            let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) else { continue };
            is_test = false;
            let name = name.split('(').next().unwrap_or_default();
            if name.split('_').count() < LEAST_WORDS && !ROLES.contains(&name) {
                let fault = format!("the name of test {name}() does not state its claim");
                faults.push(format!("{}:{}: {fault}", document.name, index + 1));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    #[test]
    fn a_test_with_a_short_name_is_a_fault() {
        let attribute = "#[test]";
        let text = format!(
            "fn help() {{}}\n{attribute}\nfn limits() {{}}\n{attribute}\n#[ignore]\n\
             fn a_limit_holds() {{}}\n{attribute}\nfn child_process() {{}}\n"
        );
        let faults = faults(&[document("a.rs", &text)]);
        assert_eq!(faults, ["a.rs:3: the name of test limits() does not state its claim"]);
    }
}
