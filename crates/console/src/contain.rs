//! Pages that pods, Services and extension servers answer through this server have its origin, and with it what the console keeps in the
//! browser. Where a browser may have a session, such answers get an origin of their own.

use authn::cookie;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::COOKIE;
use crate::pages::wants_html;

/// The browser shows and runs the page, in an origin that equals no other: without this origin's storage, cookies and answers.
const SANDBOX: HeaderValue =
    HeaderValue::from_static("sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts");
/// Would let a script of the page answer requests for paths beyond its own, and remove the session.
const POWERS: [HeaderName; 2] =
    [HeaderName::from_static("service-worker-allowed"), HeaderName::from_static("clear-site-data")];
const FORWARDED_FOR: &str = "x-forwarded-for";
const FETCH_SITE: &str = "sec-fetch-site";

/// Whether an answer of another server must be contained. Requests of a browser with a session have its cookie, unless another site has
/// caused them. A browser behind `kubectl proxy`, which the header tells that no script can add to a navigation, has the origin and the
/// rights of that proxy: there is no session there, and its pages work as with kube-apiserver.
pub fn is_needed(request: &HeaderMap) -> bool {
    if cookie::is_sent(request, COOKIE) {
        return true;
    }
    let is_browser = wants_html(request) || request.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
    let mut sites = request.get_all(FETCH_SITE).iter();
    let is_of_another_site = sites.any(|site| site == "cross-site" || site == "same-site");
    is_browser && (is_of_another_site || !request.contains_key(FORWARDED_FOR))
}

/// Gives the answer an origin of its own. What it says about its content's policy holds besides.
pub fn contain(answer: &mut HeaderMap) {
    POWERS.iter().for_each(|name| drop(answer.remove(name)));
    cookie::strip_settings(answer, COOKIE);
    answer.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn browsers_that_may_have_a_session_are_recognised() {
        let (proxied, page) = (("x-forwarded-for", "127.0.0.1"), ("accept", "text/html,*/*;q=0.8"));
        let site = |site| ("sec-fetch-site", site);
        let session = ("cookie", "a=b; __Host-ferrokube-console=x");
        for (sent, want, why) in [
            (&[][..], false, "kubectl"),
            (&[("accept", "application/json, */*")], false, "client-go"),
            (&[page], true, "a browser"),
            (&[("sec-fetch-dest", "serviceworker")], true, "a script of a worker"),
            (&[proxied, page], false, "an old browser behind kubectl proxy"),
            (&[proxied, page, site("none")], false, "the address bar behind kubectl proxy"),
            (&[proxied, page, site("same-origin")], false, "a page behind kubectl proxy"),
            (&[proxied, page, site("cross-site")], true, "another site's link, with which no cookie is sent"),
            (&[proxied, page, site("none"), site("same-site")], true, "several values"),
            (&[proxied, session], true, "a session"),
            (&[("cookie", "__Host-ferrokube-console=x; __Host-ferrokube-console=y")], true, "a planted cookie"),
            (&[("cookie", "__Host-ferrokube-console2=x")], false, "another cookie"),
        ] {
            assert_eq!(is_needed(&headers(sent)), want, "{why}");
        }
    }

    #[test]
    fn answers_lose_what_reaches_beyond_them() {
        let mut answer = headers(&[
            ("content-security-policy", "default-src 'self'"),
            ("service-worker-allowed", "/"),
            ("clear-site-data", "\"*\""),
            ("set-cookie", "theme=dark"),
            ("set-cookie", " __Host-ferrokube-console = planted; Path=/; Secure"),
        ]);
        contain(&mut answer);
        let all = |name: HeaderName| answer.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all(header::SET_COOKIE), ["theme=dark"]);
        assert_eq!(all(header::CONTENT_SECURITY_POLICY), ["default-src 'self'", SANDBOX.to_str().unwrap()]);
        assert_eq!(answer.len(), 3);
    }
}
