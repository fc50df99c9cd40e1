// The serious and critical findings of axe-core: a line for each rule, with how many elements break
// it and the first of them.
axe.run(document, { resultTypes: ["violations"] }).then((r) =>
  r.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map((v) => {
      const n = v.nodes[0];
      const why = (n.any[0] || n.all[0] || n.none[0] || {}).message || "";
      return `${v.impact} ${v.id}, ${v.nodes.length} times: ${v.help}: ${n.html.slice(0, 200)} (${why})`;
    }))
