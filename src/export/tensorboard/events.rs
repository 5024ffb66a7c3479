//! TensorBoard's event files: TFRecords of protocol buffers, written by hand, since there are but a few small messages.
//!
//! A record (tensorflow/core/lib/io/record_writer.h) is its length as a little-endian u64, the masked CRC-32C of these
//! eight bytes, the data, and their masked CRC-32C. The messages, each field with its number:
//!
//! ```text
//! tensorflow/core/util/event.proto
//!     Event           {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5}
//! tensorflow/core/framework/summary.proto
//!     Summary         {repeated Value value = 1}
//!     Value           {string tag = 1; float simple_value = 2; TensorProto tensor = 8; SummaryMetadata metadata = 9}
//!     SummaryMetadata {PluginData plugin_data = 1}
//!     PluginData      {string plugin_name = 1; bytes content = 2}
//! tensorflow/core/framework/tensor.proto, tensor_shape.proto, types.proto
//!     TensorProto     {DataType dtype = 1; TensorShapeProto tensor_shape = 2; repeated bytes string_val = 8}
//!     TensorShapeProto{repeated Dim dim = 2}, Dim {int64 size = 1}
//!     DataType        {DT_FLOAT = 1; DT_STRING = 7}
//! tensorboard/plugins/hparams/plugin_data.proto, api.proto
//!     HParamsPluginData {int32 version = 1; SessionStartInfo session_start_info = 3; SessionEndInfo session_end_info = 4}
//!     SessionStartInfo  {map<string, google.protobuf.Value> hparams = 1; double start_time_secs = 5}
//!     SessionEndInfo    {Status status = 1; double end_time_secs = 2}, Status {STATUS_SUCCESS = 1; STATUS_FAILURE = 2}
//! google/protobuf/struct.proto
//!     Value           {double number_value = 2; string string_value = 3; bool bool_value = 4}
//! ```

use std::{
    fs::File,
    io::{self, BufWriter, Write},
};

use crc::{CRC_32_ISCSI, Crc, Table};
use serde_json::Value;

use crate::base::clock::Millis;

/// An event file that is being written.
pub struct Events(BufWriter<File>);

impl Events {
    /// One that begins with the version that TensorBoard asks for.
    pub fn new(file: File, at: Millis) -> io::Result<Self> {
        let mut events = Self(BufWriter::new(file));
        let event = Message::default().double(1, seconds(at as f64)).text(3, "brain.Event:2");
        events.record(&event.0)?;
        Ok(events)
    }

    /// A point of a curve. TensorBoard keeps it in 32 bits.
    pub fn scalar(&mut self, at: f64, step: u64, tag: &str, value: f64) -> io::Result<()> {
        self.value(at, step, Message::default().text(1, tag).float(2, value as f32))
    }

    /// A text, which TensorBoard takes for Markdown.
    pub fn text(&mut self, at: f64, step: u64, tag: &str, text: &str) -> io::Result<()> {
        let tensor = Message::default().int(1, DT_STRING).message(2, Message::default()).text(8, text);
        let value = Message::default().text(1, tag).message(8, tensor);
        self.value(at, step, value.message(9, plugin("text", Message::default())))
    }

    /// The settings of a run, where it starts.
    pub fn session_start<'a>(
        &mut self,
        at: Millis,
        settings: impl Iterator<Item = (&'a str, Value)>,
    ) -> io::Result<()> {
        let mut info = Message::default();
        for (name, value) in settings {
            let value = match value {
                Value::Bool(flag) => Message::default().int(4, flag.into()),
                Value::Number(n) => Message::default().double(2, n.as_f64().unwrap_or(f64::NAN)),
                Value::String(text) => Message::default().text(3, &text),
                _ => continue, // it is not set
            };
            info = info.message(1, Message::default().text(1, name).message(2, value));
        }
        let info = info.double(5, seconds(at as f64));
        self.hparams(at, "_hparams_/session_start_info", Message::default().message(3, info))
    }

    /// How a run ended.
    pub fn session_end(&mut self, at: Millis, is_success: bool) -> io::Result<()> {
        let info = Message::default().int(1, if is_success { 1 } else { 2 }).double(2, seconds(at as f64));
        self.hparams(at, "_hparams_/session_end_info", Message::default().message(4, info))
    }

    /// Writes what is left, durably.
    pub fn finish(self) -> io::Result<()> {
        self.0.into_inner()?.sync_all()
    }

    /// What TensorBoard's plugin for hyper-parameters reads stands in the metadata of an empty tensor.
    fn hparams(&mut self, at: Millis, tag: &str, data: Message) -> io::Result<()> {
        let none = Message::default().int(1, DT_FLOAT).message(2, Message::default().message(2, Message::default()));
        let value = Message::default().text(1, tag).message(8, none).message(9, plugin("hparams", data));
        self.value(at as f64, 0, value)
    }

    fn value(&mut self, at: f64, step: u64, value: Message) -> io::Result<()> {
        let event = Message::default().double(1, seconds(at)).int(2, step);
        self.record(&event.message(5, Message::default().message(1, value)).0)
    }

    fn record(&mut self, data: &[u8]) -> io::Result<()> {
        let length = (data.len() as u64).to_le_bytes();
        self.0.write_all(&length)?;
        self.0.write_all(&masked_crc(&length).to_le_bytes())?;
        self.0.write_all(data)?;
        self.0.write_all(&masked_crc(data).to_le_bytes())
    }
}

const DT_FLOAT: u64 = 1;
const DT_STRING: u64 = 7;

/// For which plugin a value is, and what it is to know.
fn plugin(name: &str, content: Message) -> Message {
    let data = Message::default().text(1, name).message(2, content);
    Message::default().message(1, data)
}

fn seconds(millis: f64) -> f64 {
    millis / 1000.0
}

fn masked_crc(data: &[u8]) -> u32 {
    static CRC_32C: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
    CRC_32C.checksum(data).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A protocol buffer: fields one after the other, each with its number and how long it is.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn int(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn double(mut self, field: u64, value: f64) -> Self {
        self.varint(field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.varint(field << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    /// Seven bits a byte, the lowest first; the eighth says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}
