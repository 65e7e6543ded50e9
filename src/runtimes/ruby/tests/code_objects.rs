//! Names, files, lines and checks of code objects.

use super::*;
use crate::runtimes::ruby::code::RubyCode;
use crate::runtimes::ruby::layout::RubyLayout;
use crate::runtimes::ruby::object::read_text;

fn layout(ruby: &SyntheticRuby) -> RubyLayout {
    RubyLayout::find(ruby, &|name| ruby.symbol(name), "libruby.so").expect("it fits")
}

/// Line at `words` from the first instruction.
fn line(ruby: &SyntheticRuby, layout: &RubyLayout, address: u64, words: u32) -> Option<u32> {
    let code = RubyCode::read(ruby, layout, address).expect("it is code");
    let first = ruby.u64(ruby.u64(address + 16)? + 8)?;
    code.line(address, (first.wrapping_sub(address) as u32).wrapping_add(8 * words))
}

#[test]
fn every_position_has_its_line() {
    for version in VERSIONS {
        let mut ruby = SyntheticRuby::with_program(version);
        let layout = layout(&ruby);
        let lines: Vec<(u32, u32)> = (0..200).map(|index| (index * 7, 100 + index * index % 91)).collect();
        let long = ruby.sequence("long", 99, 1400, &lines);
        for words in 1..=1400 {
            let expected = lines.iter().rfind(|(at, _)| *at < words).map(|(_, line)| *line);
            assert_eq!(line(&ruby, &layout, long, words), expected, "{version:?} {words}");
        }
        assert_eq!(line(&ruby, &layout, long, 0), Some(100), "it has not begun");
        assert_eq!(line(&ruby, &layout, long, 1401), None, "that is not its instruction");
        let code = RubyCode::read(&ruby, &layout, long).expect("it is code");
        assert_eq!((code.file.as_str(), code.first_line), ("/srv/example/app.rb", 99));
    }
}

#[test]
fn what_a_string_cannot_be_is_no_text() {
    let mut ruby = SyntheticRuby::with_program((3, 1));
    let text = |ruby: &SyntheticRuby, address| read_text(ruby, &ruby.offsets, address);
    let (short, long) = (ruby.string("short"), ruby.string("a text of more than 23 letters"));
    assert_eq!(text(&ruby, short).as_deref(), Some("short"));
    assert_eq!(text(&ruby, long).as_deref(), Some("a text of more than 23 letters"));
    ruby.put(long + 16, &[1 << 30]);
    assert_eq!(text(&ruby, long), None, "as long as a program's memory");
    ruby.put(long + 16, &[24, u64::MAX - 8]);
    assert_eq!(text(&ruby, long), None, "nowhere");
    ruby.put_bytes(short + 17, b"\0");
    assert_eq!(text(&ruby, short), None, "a zero is in no name");
    assert_eq!(text(&ruby, THREAD), None, "it is no string");
    let strange = ruby.string("caf?");
    ruby.put_bytes(strange + 19, &[0xe9]);
    assert_eq!(text(&ruby, strange).as_deref(), Some("caf\u{fffd}"));
}

#[test]
fn another_function_at_the_same_place_has_another_identity() {
    for version in [(3, 1), (3, 4)] {
        let mut ruby = SyntheticRuby::with_program(version);
        let layout = layout(&ruby);
        let address = ruby.sequence("method_1", 3, 20, &[(0, 3), (4, 4)]);
        let identity = |ruby: &SyntheticRuby| RubyCode::identity(ruby, &layout, address).expect("it is code");
        let before = identity(&ruby);
        assert_eq!(identity(&ruby), before);
        let body = ruby.u64(address + 16).expect("it is there");
        let label = ruby.u64(body + 80).expect("it is there");
        let letters = label + if ruby.offsets.has_length_word { 24 } else { 16 };
        ruby.put_bytes(letters + 7, b"2");
        assert_ne!(identity(&ruby), before, "its name is another one");
        ruby.put_bytes(letters + 7, b"1");
        assert_eq!(identity(&ruby), before);
        // Marks of the collector are not the object.
        ruby.put(address, &[0x701a | 0x60]);
        assert_eq!(identity(&ruby), before);
        ruby.put(body + 88, &[77]);
        assert_ne!(identity(&ruby), before, "it begins in another line");
        ruby.put(address, &[0x001a]);
        assert_eq!(RubyCode::identity(&ruby, &layout, address), None, "it was freed");
    }
}

#[test]
fn tables_that_are_too_large_or_missing_are_not_read() {
    let mut ruby = SyntheticRuby::with_program((3, 3));
    let layout = layout(&ruby);
    let address = ruby.sequence("run", 3, 20, &[(0, 3), (4, 4)]);
    let body = ruby.u64(address + 16).expect("it is there");
    let table = body + u64::from(ruby.offsets.line_table);
    let whole = ruby.bytes::<32>(table).expect("it is there");
    for (offset, word) in [(16, u64::from(u32::MAX)), (0, 8), (24, u64::MAX - 7)] {
        ruby.put(table + offset, &[word]);
        assert_eq!(RubyCode::read(&ruby, &layout, address), None, "{offset}");
        ruby.put_bytes(table, &whole);
    }
    assert!(RubyCode::read(&ruby, &layout, address).is_some());
    // An index whose ranks lead past the end.
    let index = ruby.u64(table + 24).expect("it is there");
    ruby.put(index, &[u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(line(&ruby, &layout, address, 6), None);
    ruby.put(body, &[1]);
    assert_eq!(RubyCode::read(&ruby, &layout, address), None, "without instructions");
}

#[test]
fn methods_in_c_have_the_name_of_their_number() {
    let mut ruby = SyntheticRuby::with_program((3, 1));
    let layout = layout(&ruby);
    let name = |ruby: &SyntheticRuby, method| Some(RubyCode::read(ruby, &layout, method)?.function);
    let (plus, each, none) =
        (ruby.method(b'+'.into()), ruby.method(0x1005 << 4 | 1), ruby.method(0x9_0000 << 4));
    assert_eq!(name(&ruby, plus).as_deref(), Some("+"));
    assert_eq!(name(&ruby, each).as_deref(), Some("each"));
    assert_eq!(name(&ruby, none), None);
    let code = RubyCode::read(&ruby, &layout, each).expect("it has a name");
    assert_eq!((code.file.as_str(), code.line(each, 0)), ("", None));
}
