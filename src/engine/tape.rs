//! The reference engine: candle's autograd on any device.
