//! The parameters of an event's macro and the template function that takes them.

use etw_tracelogging::tdh::InType;

use super::names::identifier;
use crate::manifest::{Extent, Field};

/// A template function: events whose fields have the same types share one.
#[derive(Clone, Debug, Default)]
pub struct Function {
    /// The letters of its fields, which its name ends with.
    pub code: String,
    /// Parameters of the macro, in order.
    pub parameters: Vec<String>,
    /// C types of the function's arguments, in the order of the parameters.
    types: Vec<&'static str>,
    /// Address and size of each data descriptor, in terms of `_Arg0` ….
    descriptors: Vec<(String, String)>,
}

/// `EventWriteTransfer` of `evntprov.h` copies so many descriptors inside of its caller; of more, the library's function copies them.
const INLINED_DESCRIPTORS: usize = 8;

/// How one value of an in-type is passed.
struct Scalar {
    letter: char,
    /// C type of the value; of a pointer's target for those that are passed by pointer.
    c_type: &'static str,
    is_pointer: bool,
}

fn scalar(in_type: InType) -> Option<Scalar> {
    let value = |letter, c_type| Some(Scalar { letter, c_type, is_pointer: false });
    let pointer = |letter, c_type| Some(Scalar { letter, c_type, is_pointer: true });
    match in_type {
        InType::INT8 => value('c', "signed char"),
        InType::UINT8 => value('u', "unsigned char"),
        InType::INT16 => value('l', "signed short"),
        InType::UINT16 => value('h', "unsigned short"),
        InType::INT32 | InType::HEXINT32 => value('d', "signed int"),
        InType::UINT32 => value('q', "unsigned int"),
        InType::INT64 | InType::HEXINT64 => value('i', "LONGLONG"),
        InType::UINT64 => value('x', "ULONGLONG"),
        InType::FLOAT => value('f', "float"),
        InType::DOUBLE => value('g', "double"),
        InType::BOOLEAN => value('t', "signed int"),
        InType::POINTER | InType::SIZET => value('p', "void*"),
        InType::GUID => pointer('j', "GUID"),
        InType::FILETIME => pointer('m', "FILETIME"),
        InType::SYSTEMTIME => pointer('y', "SYSTEMTIME"),
        _ => None,
    }
}

impl Function {
    /// The function for a template's fields.
    pub fn of(fields: &[Field]) -> Function {
        let mut function = Function::default();
        // The parameter of each field, for lengths and counts that name it.
        let mut arguments = Vec::new();
        for field in fields {
            function.field(field, &mut arguments);
        }
        function
    }

    /// Adds a parameter. Two fields whose names are one in C, or that of a macro's own parameter, get a number.
    fn parameter(&mut self, name: String, c_type: &'static str) -> usize {
        let is_taken = |name: &String| name == "pContext" || self.parameters.contains(name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name));
        self.parameters.extend(free);
        self.types.push(c_type);
        self.types.len() - 1
    }

    fn descriptor(&mut self, address: String, size: String) {
        self.descriptors.push((address, size));
    }

    fn field(&mut self, field: &Field, arguments: &mut Vec<usize>) {
        let name = identifier(&field.name);
        let is_array = field.count != Extent::None;
        let count = factor(field.count, arguments);
        let length = factor(field.length, arguments);
        let in_type = match field.members.is_empty() {
            true => field.in_type,
            false => return self.sized(name, 'n', field, arguments),
        };
        if let Some(scalar) = scalar(in_type) {
            self.code.push(if is_array {
                scalar.letter.to_ascii_uppercase()
            } else {
                scalar.letter
            });
            if is_array {
                self.code.push_str(&suffix(field.count, 'R'));
            }
            let is_indirect = is_array || scalar.is_pointer;
            let at = self.parameter(name, c_argument(scalar.c_type, is_indirect));
            arguments.push(at);
            let size = format!("sizeof({}){count}", scalar.c_type);
            let address = if is_indirect { format!("_Arg{at}") } else { format!("&_Arg{at}") };
            return self.descriptor(address, size);
        }
        match in_type {
            InType::UNICODESTRING | InType::ANSISTRING => {
                let is_wide = in_type == InType::UNICODESTRING;
                let letter = if is_wide { 'z' } else { 's' };
                let (c_type, unit) =
                    if is_wide { ("PCWSTR", "sizeof(WCHAR)") } else { ("PCSTR", "1") };
                if field.length != Extent::None {
                    self.text_of_length(name, letter, c_type, field, arguments);
                    let at = self.types.len() - 1;
                    return self.descriptor(format!("_Arg{at}"), format!("{unit}{length}{count}"));
                }
                if is_array {
                    return self.sized(name, letter, field, arguments);
                }
                self.code.push(letter);
                let at = self.parameter(name, c_type);
                arguments.push(at);
                let function = if is_wide { "16" } else { "8" };
                self.descriptor(
                    format!("McGenText{function}(_Arg{at})"),
                    format!("McGenTextSize{function}(_Arg{at})"),
                );
            }
            InType::BINARY if field.length != Extent::None => {
                self.text_of_length(name, 'b', "const unsigned char*", field, arguments);
                let at = self.types.len() - 1;
                self.descriptor(format!("_Arg{at}"), format!("1{length}{count}"));
            }
            InType::SID if !is_array => {
                self.code.push('k');
                let at = self.parameter(name, "const void*");
                arguments.push(at);
                self.descriptor(format!("McGenSid(_Arg{at})"), format!("McGenSidSize(_Arg{at})"));
            }
            InType::SID => self.sized(name, 'k', field, arguments),
            InType::MANIFEST_COUNTEDSTRING => {
                self.counted(name, 'w', "const WCHAR*", field, arguments)
            }
            InType::MANIFEST_COUNTEDANSISTRING => {
                self.counted(name, 'a', "const char*", field, arguments)
            }
            InType::MANIFEST_COUNTEDBINARY => {
                self.counted(name, 'e', "const unsigned char*", field, arguments);
            }
            // Types that only classic events have, and binary fields that decoders cannot delimit.
            _ => self.sized(name, 'b', field, arguments),
        }
    }

    /// Text or bytes of a length that the manifest gives: one pointer.
    fn text_of_length(
        &mut self,
        name: String,
        letter: char,
        c_type: &'static str,
        field: &Field,
        arguments: &mut Vec<usize>,
    ) {
        let is_array = field.count != Extent::None;
        self.code.push(if is_array { letter.to_ascii_uppercase() } else { letter });
        let code = match (field.length, field.count) {
            // Fixed sizes are multiplied at once.
            (Extent::Fixed(length), Extent::Fixed(count)) => {
                (u32::from(length) * u32::from(count)).to_string()
            }
            // One number and one field: the number comes first.
            (Extent::Fixed(number), Extent::Field(field))
            | (Extent::Field(field), Extent::Fixed(number)) => format!("{number}r{field}"),
            (length, count) => suffix(length, 'r') + &suffix(count, 'R'),
        };
        self.code.push_str(&code);
        let at = self.parameter(name, c_type);
        arguments.push(at);
    }

    /// Bytes of a size that the program gives: structs, and arrays of values without a fixed size. The size of text is
    /// in characters.
    fn sized(&mut self, name: String, letter: char, field: &Field, arguments: &mut Vec<usize>) {
        let is_array = field.count != Extent::None;
        self.code.push(if is_array { letter.to_ascii_uppercase() } else { letter });
        if is_array && matches!(letter, 'z' | 's') {
            self.code.push('R');
        } else if is_array {
            self.code.push_str(&suffix(field.count, 'R'));
        }
        let size = self.parameter(format!("{name}_Len_"), "const ULONG");
        let (c_type, unit) = match letter {
            'z' => ("const WCHAR*", "sizeof(WCHAR) * "),
            's' => ("const char*", ""),
            _ => ("const void*", ""),
        };
        let at = self.parameter(name, c_type);
        arguments.push(at);
        self.descriptor(format!("_Arg{at}"), format!("{unit}_Arg{size}"));
    }

    /// A size in bytes as u16, then that many bytes. Items of an array bring their sizes along.
    fn counted(
        &mut self,
        name: String,
        letter: char,
        c_type: &'static str,
        field: &Field,
        arguments: &mut Vec<usize>,
    ) {
        let unit = if letter == 'w' { "sizeof(WCHAR)" } else { "1" };
        if field.count != Extent::None {
            self.code.push(letter.to_ascii_uppercase());
            self.code.push_str(&suffix(field.count, 'R'));
            let size = self.parameter(format!("{name}_Len_"), "const ULONG");
            let at = self.parameter(name, "const void*");
            arguments.push(at);
            return self.descriptor(format!("_Arg{at}"), format!("_Arg{size}"));
        }
        self.code.push(letter);
        let size = self.parameter(format!("{name}_Len_"), "USHORT");
        let at = self.parameter(name, c_type);
        arguments.push(at);
        // The descriptor of the bytes comes next, so its size is the count.
        let next = self.descriptors.len() + 2;
        self.descriptor(format!("&EventData[{next}].Size"), "2".to_owned());
        self.descriptor(format!("_Arg{at}"), format!("(ULONG)({unit} * _Arg{size})"));
    }

    /// The definition of the function, with a name and a guard of its own. Two aliases follow: old and new versions of mc call the
    /// function by different names, and their headers may come behind ours.
    pub fn definition(&self, name: &str, is_kernel: bool) -> String {
        let count = self.descriptors.len();
        let mut parameters =
            "PMCGEN_TRACE_CONTEXT Context, PCEVENT_DESCRIPTOR Descriptor".to_owned();
        let mut arguments = "Context, Descriptor".to_owned();
        if is_kernel {
            parameters.push_str(", LPCGUID Activity");
            arguments.push_str(", Activity");
        }
        for (index, c_type) in self.types.iter().enumerate() {
            parameters.push_str(&format!(",\n    {c_type} _Arg{index}"));
            arguments.push_str(&format!(", _Arg{index}"));
        }
        let kind = if count < INLINED_DESCRIPTORS { "MCGEN_INLINED" } else { "MCGEN_FUNCTION" };
        let mut out = format!(
            "#define {name}_ARGCOUNT {count}\n#ifndef {name}_etw_def\n#define {name}_etw_def\n\
             {kind} ULONG {name}_etw({parameters})\n{{\n    EVENT_DATA_DESCRIPTOR EventData[{}];\n",
            count + 1
        );
        let create = |(index, (address, size)): (usize, &(String, String))| {
            let at = index + 1;
            format!("    EventDataDescCreate(&EventData[{at}], {address}, (ULONG)({size}));\n")
        };
        let mut lines: Vec<String> = self.descriptors.iter().enumerate().map(create).collect();
        for (index, (address, _)) in self.descriptors.iter().enumerate() {
            // The descriptor of a counted field's bytes is filled first: its size is the count.
            if address.starts_with("&EventData[") {
                lines.swap(index, index + 1);
            }
        }
        out.push_str(&lines.concat());
        let activity = if is_kernel { "Activity" } else { "NULL" };
        out.push_str(&format!(
            "    return McGenEventWrite(Context, Descriptor, {activity}, {}, EventData);\n}}\n#endif\n\
             #ifndef {name}_def\n#define {name}_def\n#define {name} {name}_etw\n\
             MCGEN_FUNCTION ULONG _mcgen_PASTE2({name}_, MCGEN_EVENTWRITETRANSFER)({parameters})\n{{\n    \
             return {name}_etw({arguments});\n}}\n#endif\n",
            count + 1
        ));
        out
    }
}

/// The C type of an argument.
fn c_argument(c_type: &'static str, is_indirect: bool) -> &'static str {
    // One row a type: by value, by pointer.
    const TYPES: [(&str, &str, &str); 14] = [
        ("signed char", "const signed char", "const signed char*"),
        ("unsigned char", "const unsigned char", "const unsigned char*"),
        ("signed short", "const signed short", "const signed short*"),
        ("unsigned short", "const unsigned short", "const unsigned short*"),
        ("signed int", "const signed int", "const signed int*"),
        ("unsigned int", "const unsigned int", "const unsigned int*"),
        ("LONGLONG", "LONGLONG", "const LONGLONG*"),
        ("ULONGLONG", "ULONGLONG", "const ULONGLONG*"),
        ("float", "const float", "const float*"),
        ("double", "const double", "const double*"),
        ("void*", "const void*", "const void**"),
        ("GUID", "LPCGUID", "LPCGUID"),
        ("FILETIME", "const FILETIME*", "const FILETIME*"),
        ("SYSTEMTIME", "const SYSTEMTIME*", "const SYSTEMTIME*"),
    ];
    let row = TYPES.iter().find(|(known, ..)| *known == c_type);
    row.map_or("const void*", |(_, value, pointer)| if is_indirect { pointer } else { value })
}

/// `*5`, or `*_Arg2` for the field that holds the number.
fn factor(extent: Extent, arguments: &[usize]) -> String {
    match extent {
        Extent::None => String::new(),
        Extent::Fixed(value) => format!("*{value}"),
        Extent::Field(index) => match arguments.get(usize::from(index)) {
            Some(argument) => format!("*_Arg{argument}"),
            None => String::new(),
        },
    }
}

/// `5`, or a letter and the index of the field that holds the number.
fn suffix(extent: Extent, letter: char) -> String {
    match extent {
        Extent::None => String::new(),
        Extent::Fixed(value) => value.to_string(),
        Extent::Field(index) => format!("{letter}{index}"),
    }
}
