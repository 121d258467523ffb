//! The engine.
use std::{collections::{self, HashMap}, fmt::*, io::Read as Source};
use crate::parts::Wheel;
pub use self::gears::Gear;
extern crate serde;

mod gears;

/// The most wheels.
pub const MAX: usize = 4;
static mut COUNT: u32 = 0;
pub type Wheels<T> = Vec<T>;

/// Something that turns.
///
/// Twice as fast when oiled.
pub trait Turn: Debug + Send {
    type Unit: Copy;
    const SIDES: usize = 2;
    fn turn(&mut self, by: Self::Unit) -> Result<Self::Unit>;
    fn spin(&mut self) {
        self.turn(1).unwrap();
    }
}

#[derive(Debug, Clone)]
pub struct Engine<'a, T: Turn> {
    pub name: &'a str,
    wheels: Wheels<T>,
}

pub struct Meter(u32, pub f64);

#[repr(u8)]
pub(crate) enum State {
    Off,
    Running { speed: u32 },
    Failed(String),
}

impl<'a, T: Turn> Engine<'a, T> {
    /// Makes one.
    pub fn new(name: &'a str) -> Self {
        let wheels = Vec::with_capacity(MAX);
        Self { name, wheels }
    }

    fn drive(&mut self, mut speed: u32) -> Option<State> {
        speed += 1;
        for wheel in self.wheels.iter_mut() {
            wheel.turn(speed as u8)?;
        }
        match self.state() {
            State::Running { speed: now } if now > MAX => Some(State::Failed(format!("{}", describe(now)))),
            other => Some(other),
        }
    }
}

impl<T> Turn for Engine<'_, T> where T: Turn {
    type Unit = u8;
    fn turn(&mut self, by: u8) -> Result<u8> {
        let twice = |x: u8| x * 2;
        unsafe { COUNT += 1 };
        self.name = "turned";
        Wheel::roll::<u8>(twice(by))
    }
}

macro_rules! oil {
    ($part:expr) => { $part.oil() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns() {
        assert_eq!(Engine::new("x").drive(1), None);
        oil!(wheel);
    }
}
