//! Numbers for functions and stacks that a target writes once.

use crate::join::StackFrame;
use std::collections::HashMap;
use std::hash::Hash;

/// Values in the order of their numbers.
#[derive(Debug)]
pub struct Table<T> {
    numbers: HashMap<T, usize>,
    values: Vec<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<T: Hash + Eq + Clone> Table<T> {
    /// The number of a value, and whether it is new.
    pub fn number(&mut self, value: T) -> (usize, bool) {
        if let Some(number) = self.numbers.get(&value) {
            return (*number, false);
        }
        let number = self.values.len();
        self.numbers.insert(value.clone(), number);
        self.values.push(value);
        (number, true)
    }

    pub fn values(&self) -> &[T] {
        &self.values
    }
}

/// A node of the tree of stacks: the caller's node, and a function.
pub type Node = (Option<usize>, usize);

/// Stacks as a tree: those with equal callers share nodes.
#[derive(Debug, Default)]
pub struct StackTree {
    pub functions: Table<String>,
    pub nodes: Table<Node>,
}

impl StackTree {
    /// The node of a stack whose innermost function comes first; `None`: it is empty.
    pub fn node(&mut self, frames: &[StackFrame]) -> Option<usize> {
        frames.iter().rev().fold(None, |caller, frame| {
            let (function, _) = self.functions.number(frame.text());
            Some(self.nodes.number((caller, function)).0)
        })
    }
}
