//! Methods of requests.

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
    Other,
}

impl Method {
    /// Returns the method as a request writes it.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Other => "?",
        }
    }

    /// Parses a name; methods that no route has become `Other`.
    pub(crate) fn parse(name: &str) -> Method {
        let known =
            [Method::Get, Method::Head, Method::Put, Method::Post, Method::Patch, Method::Delete];
        known.into_iter().find(|method| method.name() == name).unwrap_or(Method::Other)
    }
}
