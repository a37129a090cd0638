//! The type of a file by the ending of its name. The crate mime_guess knows many more endings, and
//! would add three crates. A program gives other types itself.

/// Endings and types. Texts are taken for UTF-8.
const KINDS: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"),
    ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("webmanifest", "application/manifest+json"),
    ("txt", "text/plain; charset=utf-8"),
    ("log", "text/plain; charset=utf-8"),
    ("lua", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("ics", "text/calendar; charset=utf-8"),
    ("xml", "application/xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("bmp", "image/bmp"),
    ("ico", "image/vnd.microsoft.icon"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("mp3", "audio/mpeg"),
    ("m4a", "audio/mp4"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/ogg"),
    ("wav", "audio/wav"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("pdf", "application/pdf"),
    ("epub", "application/epub+zip"),
    ("wasm", "application/wasm"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tgz", "application/gzip"),
    ("tar", "application/x-tar"),
    ("bz2", "application/x-bzip2"),
    ("zst", "application/zstd"),
    ("7z", "application/x-7z-compressed"),
];

/// What is not known, which browsers save and do not show.
const UNKNOWN: &str = "application/octet-stream";

/// The type of a file of this name.
#[must_use]
pub fn of(path: &[u8]) -> &'static str {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let Some(dot) = memchr::memrchr(b'.', name) else {
        return UNKNOWN;
    };
    let ending = &name[dot + 1..];
    let is_it = |kind: &&(&str, &str)| kind.0.as_bytes().eq_ignore_ascii_case(ending);
    KINDS.iter().find(is_it).map_or(UNKNOWN, |kind| kind.1)
}
