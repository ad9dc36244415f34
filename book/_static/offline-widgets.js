// Point RequireJS at the copies that the book carries, so that widgets need no CDN.
(function () {
  const here = document.currentScript.src.replace(/[^/]*$/, "");
  window.requirejs.config({
    paths: { anywidget: here + "vendor/anywidget/index" },
  });
})();
