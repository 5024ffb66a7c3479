//! What Python's pickles hold that torch and nanoGPT write, and nothing beyond: dicts, lists, tuples, numbers, text, and
//! tensors.
//!
//! A pickle is a program, and Python runs whatever it calls. Here nothing is run: a call of anything but the few names that
//! tensors are made of is an error. Values lie in one flat list and refer to each other by number, so that neither deep
//! nesting nor a value that is used over and over takes more memory or stack than the file's own length.

use std::collections::HashMap;

/// The longest pickle that is read, in bytes: GPT-2 XL's with its optimizer has some 400,000.
pub const LONGEST: usize = 8 << 20;

/// The longest name of a file of numbers that is read, in bytes: torch counts them.
const LONGEST_KEY: usize = 32;

/// The most dimensions that a tensor is believed to have.
const MOST_DIMENSIONS: usize = 8;

/// A value, by its number.
pub type Id = u32;

/// One value.
#[derive(Clone, Debug)]
enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A name of a module: `torch._utils _rebuild_tensor_v2`.
    Global(String),
    /// A file of numbers: its type, its key.
    Storage {
        of: Id,
        key: Id,
    },
    /// What it is made of, as it was when it was made: neither tuples nor numbers change.
    Tensor {
        storage: Id,
        offset: Id,
        shape: Id,
        strides: Id,
    },
}

/// A tensor as a pickle tells of it; its numbers lie elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// `torch FloatStorage`.
    pub storage: &'a str,
    /// The name of the file of its numbers.
    pub key: &'a str,
    /// How many numbers of that file come before its own.
    pub offset: u64,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// How many numbers lie between neighbours of each dimension.
    pub strides: Vec<u64>,
}

/// What a pickle holds.
#[derive(Debug)]
pub struct Tree {
    values: Vec<Value>,
    root: Id,
}

impl Tree {
    /// Reads a pickle. Errors say what of it is none of what tensors need.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > LONGEST {
            return Err(format!("its pickle has {} bytes, more than {LONGEST}", bytes.len()));
        }
        let mut reader =
            Reader { rest: bytes, values: Vec::new(), stack: Vec::new(), marks: Vec::new(), memo: HashMap::new() };
        while !reader.step()? {}
        let root = reader.pop()?;
        Ok(Self { values: reader.values, root })
    }

    /// The outermost value.
    pub fn root(&self) -> Id {
        self.root
    }

    /// The value of a key that is a text; of several equal ones the last, as in Python.
    pub fn get(&self, dict: Id, key: &str) -> Option<Id> {
        let entries = self.entries(dict)?;
        entries.iter().rev().find(|(k, _)| self.text(*k) == Some(key)).map(|(_, value)| *value)
    }

    /// The value of a key that is a number.
    pub fn get_numbered(&self, dict: Id, key: i64) -> Option<Id> {
        self.entries(dict)?.iter().rev().find(|(k, _)| self.int(*k) == Some(key)).map(|(_, value)| *value)
    }

    /// Keys and values of a dict, in its order.
    pub fn entries(&self, id: Id) -> Option<&[(Id, Id)]> {
        match self.value(id) {
            Value::Dict(entries) => Some(entries),
            _ => None,
        }
    }

    /// The members of a list.
    pub fn list(&self, id: Id) -> Option<&[Id]> {
        match self.value(id) {
            Value::List(members) => Some(members),
            _ => None,
        }
    }

    /// A text.
    pub fn text(&self, id: Id) -> Option<&str> {
        match self.value(id) {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// An integer.
    pub fn int(&self, id: Id) -> Option<i64> {
        match self.value(id) {
            Value::Int(n) => Some(*n),
            _ => None,
        }
    }

    /// `True` or `False`.
    pub fn bool(&self, id: Id) -> Option<bool> {
        match self.value(id) {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// A number with or without a point.
    pub fn number(&self, id: Id) -> Option<f64> {
        match self.value(id) {
            Value::Float(x) => Some(*x),
            Value::Int(n) => Some(*n as f64),
            _ => None,
        }
    }

    /// A tensor.
    pub fn tensor(&self, id: Id) -> Option<Tensor<'_>> {
        let &Value::Tensor { storage, offset, shape, strides } = self.value(id) else { return None };
        let &Value::Storage { of, key } = self.value(storage) else { return None };
        let (Value::Global(of), Value::Text(key)) = (self.value(of), self.value(key)) else { return None };
        let (offset, shape, strides) = geometry(&self.values, offset, shape, strides)?;
        Some(Tensor { storage: of, key, offset, shape, strides })
    }

    fn value(&self, id: Id) -> &Value {
        &self.values[id as usize]
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    values: Vec<Value>,
    stack: Vec<Id>,
    /// How high the stack was at each open mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

impl Reader<'_> {
    /// One instruction; `true` after the last.
    fn step(&mut self) -> Result<bool, String> {
        match self.byte()? {
            0x80 => {
                if let version @ 6.. = self.byte()? {
                    return Err(format!("it is a pickle of protocol {version}, and 5 is the last one known"));
                }
            }
            b'.' => return Ok(true),
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            b'K' => self.int::<1>()?,
            b'M' => self.int::<2>()?,
            b'J' => {
                let n = i32::from_le_bytes(self.array()?);
                self.push(Value::Int(n.into()));
            }
            0x8a => self.long()?,
            b'G' => {
                let x = f64::from_be_bytes(self.array()?);
                self.push(Value::Float(x));
            }
            b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(length as usize)?;
            }
            0x8c => {
                let length = self.byte()?;
                self.text(length.into())?;
            }
            b'c' => {
                let name = format!("{} {}", self.line()?, self.line()?);
                self.push(Value::Global(name));
            }
            // The length of what follows, which is read as it comes.
            0x95 => drop(self.array::<8>()?),
            b')' => self.push(Value::Tuple(Vec::new())),
            b']' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            n @ 0x85..=0x87 => {
                let mut members = (0..n - 0x84).map(|_| self.pop()).collect::<Result<Vec<_>, _>>()?;
                members.reverse();
                self.push(Value::Tuple(members));
            }
            b't' => {
                let members = self.since_mark()?;
                self.push(Value::Tuple(members));
            }
            b'a' => {
                let member = self.pop()?;
                self.append(vec![member])?;
            }
            b'e' => {
                let members = self.since_mark()?;
                self.append(members)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let pairs = self.since_mark()?;
                self.set(&pairs)?;
            }
            b'q' => {
                let number = self.byte()?;
                self.remember(number.into())?;
            }
            b'r' => {
                let number = u32::from_le_bytes(self.array()?);
                self.remember(number)?;
            }
            0x94 => self.remember(self.memo.len() as u32)?,
            b'h' => {
                let number = self.byte()?;
                self.recall(number.into())?;
            }
            b'j' => {
                let number = u32::from_le_bytes(self.array()?);
                self.recall(number)?;
            }
            b'Q' => self.storage()?,
            b'R' => self.call()?,
            b'b' => {
                // What else an ordered dict of weights carries: the versions of its modules.
                self.pop()?;
                let object = self.top()?;
                if !matches!(self.values[object as usize], Value::Dict(_)) {
                    return Err("it sets the state of an object".into());
                }
            }
            code => {
                return Err(format!(
                    "its pickle has the instruction {code:#04x}, which neither torch nor nanoGPT writes"
                ));
            }
        }
        Ok(false)
    }

    fn push(&mut self, value: Value) {
        self.stack.push(self.values.len() as Id); // below LONGEST
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<Id, String> {
        self.top()?;
        self.stack.pop().ok_or_else(ended)
    }

    /// The uppermost value above the last mark.
    fn top(&self) -> Result<Id, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        self.stack
            .get(floor..)
            .and_then(<[Id]>::last)
            .copied()
            .ok_or_else(|| "its pickle takes what it has not put".into())
    }

    /// What was put since the last mark.
    fn since_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("its pickle goes back to a mark that it has not set")?;
        Ok(self.stack.split_off(mark))
    }

    fn append(&mut self, members: Vec<Id>) -> Result<(), String> {
        match self.top().map(|list| &mut self.values[list as usize])? {
            Value::List(list) => list.extend(members),
            _ => return Err("its pickle appends to what is no list".into()),
        }
        Ok(())
    }

    fn set(&mut self, pairs: &[Id]) -> Result<(), String> {
        match (self.top().map(|dict| &mut self.values[dict as usize])?, pairs.as_chunks()) {
            (Value::Dict(dict), (pairs, [])) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            _ => return Err("its pickle sets keys of what is no dict".into()),
        }
        Ok(())
    }

    fn remember(&mut self, number: u32) -> Result<(), String> {
        self.memo.insert(number, self.top()?);
        Ok(())
    }

    fn recall(&mut self, number: u32) -> Result<(), String> {
        let id = self.memo.get(&number).ok_or("its pickle recalls what it has not remembered")?;
        self.stack.push(*id);
        Ok(())
    }

    /// `('storage', torch FloatStorage, '7', 'cpu', 2080)` becomes the storage that it names.
    fn storage(&mut self) -> Result<(), String> {
        let wrong = || "it names numbers elsewhere, and not as torch does".to_owned();
        let id = self.pop()?;
        let Value::Tuple(members) = &self.values[id as usize] else { return Err(wrong()) };
        let &[kind, of, key, ..] = &members[..] else { return Err(wrong()) };
        match [kind, of, key].map(|id| &self.values[id as usize]) {
            [Value::Text(kind), Value::Global(_), Value::Text(name)] if kind == "storage" => {
                if name.len() > LONGEST_KEY {
                    return Err(format!("it names a file of numbers by {} bytes, more than {LONGEST_KEY}", name.len()));
                }
            }
            _ => return Err(wrong()),
        }
        self.push(Value::Storage { of, key });
        Ok(())
    }

    /// Calls what tensors are made by.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, callable) = (self.pop()?, self.pop()?);
        let Value::Global(name) = &self.values[callable as usize] else {
            return Err("its pickle calls what has no name".into());
        };
        let wrong = || format!("it calls {} in another way than torch does", name.replace(' ', "."));
        let Value::Tuple(arguments) = &self.values[arguments as usize] else { return Err(wrong()) };
        let made = match (name.as_str(), &arguments[..]) {
            ("collections OrderedDict", []) => Value::Dict(Vec::new()),
            ("torch._utils _rebuild_parameter", [data, ..]) => {
                self.stack.push(*data);
                return Ok(());
            }
            ("torch._utils _rebuild_tensor_v2", &[storage, offset, shape, strides, ..]) => {
                let Value::Storage { .. } = self.values[storage as usize] else { return Err(wrong()) };
                geometry(&self.values, offset, shape, strides).ok_or_else(wrong)?;
                Value::Tensor { storage, offset, shape, strides }
            }
            ("collections OrderedDict" | "torch._utils _rebuild_tensor_v2", _) => return Err(wrong()),
            _ => return Err(format!("it calls {}, which no tensor needs; nothing was run", name.replace(' ', "."))),
        };
        self.push(made);
        Ok(())
    }

    /// A text of so many bytes.
    fn text(&mut self, length: usize) -> Result<(), String> {
        let text = std::str::from_utf8(self.take(length)?).map_err(|e| format!("a text of it is none: {e}"))?;
        let text = Value::Text(text.into());
        self.push(text);
        Ok(())
    }

    /// An unsigned integer of `N` bytes.
    fn int<const N: usize>(&mut self) -> Result<(), String> {
        let n = self.array::<N>()?.iter().rev().fold(0, |n, byte| n << 8 | i64::from(*byte));
        self.push(Value::Int(n));
        Ok(())
    }

    /// An integer of so many bytes, in two's complement.
    fn long(&mut self) -> Result<(), String> {
        let length = self.byte()?.into();
        let bytes = self.take(length)?;
        if length > 8 {
            return Err(format!("it has an integer of {length} bytes"));
        }
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = if negative { [0xff; 8] } else { [0; 8] };
        wide[..length].copy_from_slice(bytes);
        self.push(Value::Int(i64::from_le_bytes(wide)));
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, rest) = self.rest.split_first_chunk().ok_or_else(ended)?;
        self.rest = rest;
        Ok(*array)
    }

    fn take(&mut self, length: usize) -> Result<&[u8], String> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(ended)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A text up to the end of its line.
    fn line(&mut self) -> Result<String, String> {
        let length = self.rest.iter().position(|byte| *byte == b'\n').ok_or_else(ended)?;
        let line = String::from_utf8_lossy(self.take(length)?).into_owned();
        self.byte()?;
        Ok(line)
    }
}

/// Offset, shape and strides of a tensor, from the numbers of these values; `None` where they are no such thing.
fn geometry(values: &[Value], offset: Id, shape: Id, strides: Id) -> Option<(u64, Vec<u64>, Vec<u64>)> {
    let size = |id: Id| match values[id as usize] {
        Value::Int(n) => u64::try_from(n).ok(),
        _ => None,
    };
    let sizes = |id: Id| match &values[id as usize] {
        Value::Tuple(members) if members.len() <= MOST_DIMENSIONS => members.iter().map(|id| size(*id)).collect(),
        _ => None,
    };
    Some((size(offset)?, sizes(shape)?, sizes(strides)?))
}

fn ended() -> String {
    "its pickle ends too early".into()
}

#[cfg(test)]
mod tests;
