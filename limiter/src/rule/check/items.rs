//! `paramFlowItemList`. Bad items are dropped with a warning, as Sentinel does.

use crate::rule::{
    ItemValue, ParamItem,
    object::{Object, Owner},
    report::Report,
    value::Value,
};

/// An item and where its count stands.
pub(super) struct Listed<'t> {
    pub(super) item: ParamItem,
    index: usize,
    at: &'t str,
    written: &'t str,
}

impl Listed<'_> {
    /// Notes a mistake in the count.
    pub(super) fn error(&self, report: &mut Report<'_>, remedy: &str) {
        let path = Owner::Item(self.index).path("count");
        report.error(self.at, &path, self.written, remedy);
    }
}

pub(super) fn items<'t>(f: &mut Object<'t>, report: &mut Report<'_>) -> Vec<Listed<'t>> {
    let Some(list) = f.take("paramFlowItemList").filter(|v| !v.is_absent()) else {
        return Vec::new();
    };
    let Some(elements) = list.elements() else {
        f.error(report, "paramFlowItemList", "must be a list");
        return Vec::new();
    };
    let items = elements.into_iter().enumerate();
    items.filter_map(|(index, element)| item(index, element, report)).collect()
}

fn item<'t>(index: usize, element: Value<'t>, report: &mut Report<'_>) -> Option<Listed<'t>> {
    let at = element.written();
    let Some(mut f) = Object::new(Owner::Item(index), at, element) else {
        let path = format!("paramFlowItemList[{index}]");
        report.warn(at, &path, at, "dropped: must be an object");
        return None;
    };
    let object = f.take("object").and_then(|value| value.text().ok());
    let class = f.take("classType").and_then(|value| value.text().ok()).unwrap_or_default();
    let count = f.take("count").filter(|value| !value.is_absent());
    f.warn_unknown(report, super::NO_MEANING);
    let count = count.and_then(|value| i32::try_from(value.int()?).ok()).filter(|&n| n >= 0);
    let value = object.and_then(|object| ItemValue::parse(&object, &class));
    if value.is_none() {
        let remedy = if class == "char" {
            "dropped: no request can carry a char"
        } else {
            "dropped: must be a value that the classType can hold"
        };
        f.warn(report, "object", remedy);
    } else if count.is_none() {
        let remedy = "dropped: must be a whole number from 0 to 2147483647";
        f.warn(report, "count", remedy);
    }
    let (at, written) = f.place("count");
    let item = ParamItem { value: value?, count: f64::from(count?) };
    Some(Listed { item, index, at, written })
}
