//! Names of addresses in one module: its symbol table, DWARF one unit at a time, and linkage stubs. The bytes come from
//! `sections`.

pub(crate) mod data_symbols;
mod dwarf;
pub(crate) mod plt;
pub(crate) mod problem;
pub(crate) mod resolve;
pub(crate) mod split;
pub(crate) mod survey;
pub(crate) mod symbol_table;
pub(crate) mod unit_context;
pub(crate) mod units;
