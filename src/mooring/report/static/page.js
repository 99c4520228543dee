// Draws the charts of a report from the specifications beside them.
"use strict";

(async () => {
  const options = {
    actions: false,
    // Expressions are interpreted: the policy of the page allows no eval.
    ast: true,
    renderer: "svg",
    // Data is in the specifications; no address is ever loaded.
    loader: {
      load: () => Promise.reject(new Error("a report loads nothing")),
      sanitize: () => Promise.reject(new Error("a report has no links")),
    },
  };
  for (const chart of document.querySelectorAll(".chart")) {
    try {
      const spec = JSON.parse(document.getElementById(`${chart.id}-spec`).textContent);
      await vegaEmbed(chart, spec, options);
      // The chart has a name, and its values are a table: its shapes say nothing more.
      for (const child of chart.children) child.setAttribute("aria-hidden", "true");
    } catch (error) {
      chart.textContent = `This chart cannot be drawn: ${error.message}`;
      chart.removeAttribute("role");
      chart.removeAttribute("aria-labelledby");
      console.error(error);
    }
  }
  document.body.dataset.charts = "done";

  // On paper, short tables are shown; long ones stay closed.
  const opened = [];
  addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      if (details.querySelectorAll("tbody tr").length <= 40) {
        details.open = true;
        opened.push(details);
      }
    }
  });
  addEventListener("afterprint", () => {
    for (const details of opened.splice(0)) details.open = false;
  });
})();
