// What a keyboard and a screen reader need beyond the theme: a name for the arrows that
// unfold chapters in the sidebar, and a way to scroll boxes that are wider than the page.
function makeReachable() {
  for (const arrow of document.querySelectorAll("nav summary:not([aria-label])"))
    arrow.setAttribute("aria-label", "Pages of this chapter");
  for (const box of document.querySelectorAll("article table, article .box, article pre"))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}

addEventListener("load", makeReachable);
addEventListener("resize", makeReachable);
