//! safe_text
