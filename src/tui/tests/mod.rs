//! Tests of several views at once, and the test screens for all views.

mod comparison;
#[cfg(test)]
pub(crate) mod export;
mod filters;
mod first_look;
#[cfg(test)]
pub(crate) mod key;
#[cfg(test)]
pub(crate) mod live;
#[cfg(test)]
pub(crate) mod names_to_come;
#[cfg(test)]
pub(crate) mod one_model;
#[cfg(test)]
pub(crate) mod screen;
#[cfg(test)]
pub(crate) mod session;
#[cfg(test)]
pub(crate) mod threads;
#[cfg(test)]
pub(crate) mod update;
#[cfg(test)]
pub(crate) mod views;
