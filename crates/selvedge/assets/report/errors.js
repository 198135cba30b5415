// First on the page: whatever goes wrong later is written to data-errors on the document element.
(() => {
  const errors = [];
  const record = (text) => {
    errors.push(String(text));
    document.documentElement.dataset.errors = errors.join('\n');
  };
  window.addEventListener('error', (e) => record(e.message));
  window.addEventListener('unhandledrejection', (e) => record(e.reason));
  document.addEventListener('securitypolicyviolation', (e) => record(`blocked: ${e.violatedDirective} ${e.blockedURI}`));
})();
