//! Numbers for texts, functions and stacks that a target writes once.

use crate::join::StackFrame;
use std::borrow::Borrow;
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
    /// The number of a value, which is added if it is new.
    pub fn number(&mut self, value: T) -> usize {
        self.numbered(value).number
    }

    /// The number of a value, and whether this call has added it.
    pub fn numbered(&mut self, value: T) -> Numbered {
        if let Some(number) = self.numbers.get(&value) {
            return Numbered { number: *number, is_new: false };
        }
        let number = self.values.len();
        self.numbers.insert(value.clone(), number);
        self.values.push(value);
        Numbered { number, is_new: true }
    }

    /// [`numbered`](Table::numbered) for a borrowed value, which is copied only if it is new.
    pub fn numbered_copy<Q>(&mut self, value: &Q) -> Numbered
    where
        T: Borrow<Q> + for<'q> From<&'q Q>,
        Q: Hash + Eq + ?Sized,
    {
        match self.find(value) {
            Some(number) => Numbered { number, is_new: false },
            None => self.numbered(T::from(value)),
        }
    }

    /// The number of a value that was added.
    pub fn find<Q>(&self, value: &Q) -> Option<usize>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.numbers.get(value).copied()
    }

    pub fn values(&self) -> &[T] {
        &self.values
    }
}

/// The number of a value in a [`Table`].
pub struct Numbered {
    pub number: usize,
    pub is_new: bool,
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
            let function = self.functions.number(frame.text());
            Some(self.nodes.number((caller, function)))
        })
    }
}
