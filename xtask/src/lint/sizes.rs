//! Files, functions and lists of parameters that are too long.

use super::Document;
use super::tokens::{Token, tokens};

/// Lines of a file.
const MOST_FILE_LINES: usize = 900;
/// Lines of a function, from `fn` to its closing brace.
const MOST_LINES: usize = 100;
/// Parameters of a function, its receiver among them.
const MOST_PARAMETERS: usize = 6;

pub fn faults(documents: &[Document]) -> Vec<String> {
    let mut faults = Vec::new();
    for document in documents.iter().filter(|document| document.has_extension("rs")) {
        let name = &document.name;
        let lines = document.text.lines().count();
        if lines > MOST_FILE_LINES {
            faults.push(format!("{name}: {lines} lines; {MOST_FILE_LINES} are allowed"));
        }
        for function in functions(&document.text) {
            let Function { name: function, line, lines, parameters, is_c } = function;
            if lines > MOST_LINES {
                let fault = format!("{lines} lines in {function}(); {MOST_LINES} are allowed");
                faults.push(format!("{name}:{line}: {fault}"));
            }
            if parameters > MOST_PARAMETERS && !is_c {
                faults.push(format!(
                    "{name}:{line}: {parameters} parameters of {function}(); \
                     {MOST_PARAMETERS} are allowed"
                ));
            }
        }
    }
    faults
}

struct Function<'t> {
    name: &'t str,
    line: usize,
    lines: usize,
    parameters: usize,
    /// The C ABI fixes the parameters.
    is_c: bool,
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let tokens = tokens(text);
    // The depth of braces at which an `extern` block began.
    let mut foreign: Option<usize> = None;
    let mut depth = 0_usize;
    let mut functions = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "extern" if text_of(&tokens, at + 1) == "{" => foreign = Some(depth),
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                foreign = foreign.filter(|start| *start < depth);
            }
            "fn" => functions.extend(function(&tokens, at, foreign.is_some())),
            _ => {}
        }
    }
    functions
}

fn text_of<'t>(tokens: &[Token<'t>], at: usize) -> &'t str {
    tokens.get(at).map_or("", |token| token.text)
}

/// The function whose `fn` is at `at`; nothing for the type of a function pointer and in a macro's pattern.
fn function<'t>(tokens: &[Token<'t>], at: usize, is_foreign: bool) -> Option<Function<'t>> {
    let name = text_of(tokens, at + 1);
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    let open = parameters_start(tokens, at + 2)?;
    let (parameters, after) = parameters(tokens, open);
    // A declaration has no body.
    let end = (after..tokens.len()).find(|at| matches!(tokens[*at].text, "{" | ";" | "}"))?;
    let last = if tokens[end].text == "{" { closing(tokens, end)? } else { end };
    let (line, last_line) = (tokens[at].line, tokens[last].line);
    let is_c = is_foreign || (at > 0 && tokens[at - 1].text == "extern");
    Some(Function { name, line, lines: last_line - line + 1, parameters, is_c })
}

/// The parenthesis behind the generic parameters, if there are any.
fn parameters_start(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    let mut angles = 0_usize;
    loop {
        match text_of(tokens, at) {
            "" => return None,
            "(" if angles == 0 => return Some(at),
            "<" => angles += 1,
            ">" if !is_arrow(tokens, at) => angles = angles.checked_sub(1)?,
            _ if angles == 0 => return None,
            _ => {}
        }
        at += 1;
    }
}

fn is_arrow(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && matches!(tokens[at - 1].text, "-" | "=")
}

/// The number of parameters between the parenthesis at `open` and its partner, and the index behind it.
fn parameters(tokens: &[Token<'_>], open: usize) -> (usize, usize) {
    let (mut brackets, mut angles, mut parameters) = (0_usize, 0_usize, 0);
    let mut is_empty = true;
    for at in open..tokens.len() {
        match tokens[at].text {
            "(" | "[" | "{" => brackets += 1,
            ")" | "]" | "}" => brackets -= 1,
            "<" => angles += 1,
            ">" if !is_arrow(tokens, at) => angles = angles.saturating_sub(1),
            "," if brackets == 1 && angles == 0 => {
                parameters += 1;
                is_empty = true;
                continue;
            }
            _ => {}
        }
        if brackets == 0 {
            return (parameters + usize::from(!is_empty), at + 1);
        }
        is_empty &= at == open;
    }
    (parameters, tokens.len())
}

/// The brace that closes the one at `open`.
fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    (open..tokens.len()).find(|at| {
        match tokens[*at].text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::document;
    use super::*;

    fn found(text: &str) -> Vec<String> {
        faults(&[document("a.rs", text)])
    }

    #[test]
    fn a_function_of_more_than_a_hundred_lines_is_a_fault() {
        let body = "    f();\n".repeat(98);
        assert!(found(&format!("fn a() {{\n{body}}}\n")).is_empty());
        assert_eq!(
            found(&format!("\n#[test]\nfn a() {{\n{body}\n}}\n")),
            ["a.rs:3: 101 lines in a(); 100 are allowed"]
        );
    }

    #[test]
    fn a_seventh_parameter_is_a_fault() {
        let six = "a: u8, b: &[(u8, u8)], c: Map<u8, u8>, d: fn(u8, u8) -> u8, e: u8";
        assert!(found(&format!("fn f<T: Fn(u8) -> u8>(&self, {six},) {{}}")).is_empty());
        assert_eq!(
            found(&format!("fn f<T: Fn(u8) -> u8>(&self, {six}, f: u8);")),
            ["a.rs:1: 7 parameters of f(); 6 are allowed"]
        );
    }

    #[test]
    fn the_c_abi_fixes_its_parameters() {
        let seven = "(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8)";
        assert!(found(&format!("unsafe extern \"C\" fn f{seven} {{}}")).is_empty());
        assert!(found(&format!("unsafe extern \"C\" {{ fn f{seven}; }}")).is_empty());
        assert_eq!(found(&format!("extern \"C\" {{ fn g(); }} fn f{seven} {{}}")).len(), 1);
    }

    #[test]
    fn a_file_of_more_than_nine_hundred_lines_is_a_fault() {
        assert_eq!(found(&"//! A\n".repeat(901)), ["a.rs: 901 lines; 900 are allowed"]);
    }
}
