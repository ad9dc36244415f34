// Let widgets work from what the book carries: no CDN, no kernel.
(function () {
  const here = document.currentScript.src.replace(/[^/]*$/, "") + "vendor/";

  // The widget manager finds its icon fonts, and anywidget, beside this file.
  window.requirejs.config({
    paths: {
      "@jupyter-widgets": here + "html-manager",
      "@jupyter-widgets/html-manager/dist": here + "html-manager",
      anywidget: here + "anywidget/index",
    },
  });

  // Widgets hand formulas in their labels to the queue of MathJax 2; give MathJax 3
  // one. Its configuration object becomes MathJax.config when it starts, so the queue
  // has to be put in place both before and after.
  const configuration = window.MathJax;
  if (!configuration) return;
  let last = Promise.resolve();
  const Hub = {
    Queue(call) {
      last = last.then(() => window.MathJax.typesetPromise?.([call[2]]));
    },
  };
  configuration.Hub = Hub;
  configuration.startup = {
    ...configuration.startup,
    ready() {
      window.MathJax.Hub = Hub;
      window.MathJax.startup.defaultReady();
    },
  };
})();
