// What a keyboard and a screen reader need beyond the theme and the widgets: names for the
// arrows that unfold chapters in the sidebar, for sliders and the pictures that they
// choose, and a way to scroll boxes that are wider than the page.
document.documentElement.classList.add("scripts"); // hides stills of widgets, see book.css

function makeReachable() {
  for (const arrow of document.querySelectorAll("nav summary:not([aria-label])"))
    arrow.setAttribute("aria-label", "Pages of this chapter");
  const wide = "article :is(table, pre, .box, .numbers, .output, .widget-subarea, div.math)";
  for (const box of document.querySelectorAll(wide))
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  // Landmarks of one name are told apart by a number.
  const names = {};
  for (const place of document.querySelectorAll("article [role=region][aria-label]")) {
    const name = place.dataset.name ??= place.getAttribute("aria-label");
    names[name] = (names[name] ?? 0) + 1;
    if (names[name] > 1) place.setAttribute("aria-label", `${name} (${names[name]})`);
  }
}

function nameWidgets() {
  for (const handle of document.querySelectorAll(".noUi-handle:not([aria-label])")) {
    const label = handle.closest(".widget-inline-hbox")?.querySelector(".widget-label");
    handle.setAttribute("aria-label", label?.textContent || "value");
  }
  for (const picture of document.querySelectorAll("img.widget-image:not([alt])"))
    picture.alt = "The picture that the slider chooses; the text around it says what to see.";
}

// A button that stops the front page's moving picture, and starts it again. Where scripts
// are off the picture moves, unless the reader has asked the system for less motion.
function makePausable() {
  const figure = document.querySelector(".hero-figure");
  const image = figure?.querySelector("img");
  if (!image || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const moving = image.src;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "hero-pause";
  button.textContent = "pause the picture";
  button.addEventListener("click", () => {
    const stopped = image.src === moving;
    image.src = stopped ? moving.replace("hero.webp", "hero-still.webp") : moving;
    button.textContent = stopped ? "play the picture" : "pause the picture";
  });
  figure.append(button);
}

addEventListener("load", () => {
  makePausable();
  makeReachable();
  nameWidgets();
  // Widgets are drawn later than the page, and again when they change.
  new MutationObserver(nameWidgets).observe(document.body, {childList: true, subtree: true});
});
addEventListener("resize", makeReachable);
