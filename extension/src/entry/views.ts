import { enhance, Scripts } from '../pictures/enhance';

/** The part of an anywidget model that is used here. */
interface IPictureModel {
  get(name: 'html'): string;
  get(name: 'scripts'): Scripts;
}

/** Show a view in a cell's output. Python made and escaped its HTML. */
function render({ model, el }: { model: IPictureModel; el: HTMLElement }): () => void {
  el.innerHTML = model.get('html');
  return enhance(el, model.get('scripts'));
}

/** Make the view of a saved page interactive; the page contains its HTML already. */
export function enhancePage(page: Document): void {
  const view = page.getElementById('rfnb-view');
  const scripts = page.getElementById('rfnb-scripts');
  if (view && scripts) {
    enhance(view, JSON.parse(scripts.textContent ?? 'null') as Scripts);
  }
}

enhancePage(document);

export default { render };
