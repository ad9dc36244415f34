// What a keyboard and a screen reader need beyond the theme and the widgets: names for the
// arrows that unfold chapters in the sidebar, for sliders and the pictures that they
// choose, and a way to scroll boxes that are wider than the page.
function makeReachable() {
  for (const arrow of document.querySelectorAll("nav summary:not([aria-label])"))
    arrow.setAttribute("aria-label", "Pages of this chapter");
  for (const box of document.querySelectorAll("article table, article .box, article pre"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}

function nameWidgets() {
  for (const handle of document.querySelectorAll(".noUi-handle:not([aria-label])")) {
    const label = handle.closest(".widget-inline-hbox")?.querySelector(".widget-label");
    handle.setAttribute("aria-label", label?.textContent || "value");
  }
  for (const picture of document.querySelectorAll("img.widget-image:not([alt])"))
    picture.alt = "The picture that the slider chooses; the text around it says what to see.";
}

addEventListener("load", () => {
  makeReachable();
  nameWidgets();
  // Widgets are drawn later than the page, and again when they change.
  new MutationObserver(nameWidgets).observe(document.body, {childList: true, subtree: true});
});
addEventListener("resize", makeReachable);
