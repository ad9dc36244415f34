// Keep the <i> elements of buttons when Font Awesome puts its pictures into them;
// the Play widget looks for them. Must run before Font Awesome loads.
window.FontAwesomeConfig = { autoReplaceSvg: "nest" };
