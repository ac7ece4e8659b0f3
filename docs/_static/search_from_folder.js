/* Show excerpts in the search results of a site that is opened from a folder. A browser refuses to
   fetch a page there, so the excerpts come from page_texts.js (docs/page_texts.py). */
if (location.protocol === "file:") {
  const script = document.currentScript.src;
  const root = new URL("..", script).href;
  let loaded;
  const loadTexts = () =>
    (loaded ??= new Promise((resolve, reject) => {
      const texts = document.createElement("script");
      texts.src = new URL("page_texts.js", script).href;
      texts.onload = () => resolve(window.pageTexts);
      texts.onerror = () => reject(new Error("_static/page_texts.js is missing. Build the site again."));
      document.head.append(texts);
    }));
  window.fetch = async (page) => {
    const texts = await loadTexts();
    return new Response(texts[new URL(page, location.href).href.slice(root.length)]);
  };
}
