/** Elements that belong to dims: pills, edges of graphs, rows of tables. The attribute lists serial numbers. */
const MARKED = '[data-rfnb-dim]';
const PILL = `.rfnb-dim${MARKED}`;
const STEPS: { [key: string]: number } = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

type Role = 'pointed' | 'pinned';

/**
 * Pointing at a dim highlights it everywhere on the page; a click or Enter pins the highlight, Escape unpins it.
 *
 * The pills of one view share one tab stop; arrow keys move between them.
 */
export function enhanceDims(root: HTMLElement): () => void {
  const page = new HighlightedDims(root.getRootNode());
  const listeners: { [type: string]: (event: Event) => void } = {
    pointerover: event => page.set('pointed', serialsAt(event)),
    pointerleave: () => page.set('pointed', ''),
    focusin: event => page.set('pointed', serialsAt(event)),
    focusout: () => page.set('pointed', ''),
    click: event => {
      if (serialsAt(event)) {
        page.pin(serialsAt(event));
        event.preventDefault(); // a pill in a <summary> would toggle its <details>
      }
    },
    keydown: event => press(event as KeyboardEvent, root, page),
    toggle: () => giveTabStop(root)
  };
  for (const type of Object.keys(listeners)) {
    root.addEventListener(type, listeners[type], type === 'toggle');
  }
  for (const pill of pillsIn(root)) {
    pill.setAttribute('role', 'button');
    pill.dataset.lmSuppressShortcuts = 'true'; // or the notebook would take the keys
  }
  giveTabStop(root);
  page.update();
  return () => {
    for (const type of Object.keys(listeners)) {
      root.removeEventListener(type, listeners[type], type === 'toggle');
    }
    page.set('pointed', '');
  };
}

/** The highlighted dims of a page, kept in one style sheet, so that elements that are drawn later are highlighted too. */
class HighlightedDims {
  constructor(page: Node) {
    this._page = page instanceof ShadowRoot ? page : document;
    const place = page instanceof ShadowRoot ? page : document.head;
    let sheet = place.querySelector<HTMLStyleElement>('style[data-rfnb-dims]');
    if (!sheet) {
      sheet = document.createElement('style');
      sheet.dataset.rfnbDims = '';
      place.append(sheet);
    }
    this._sheet = sheet;
  }

  /** Highlights exactly these serial numbers. */
  set(role: Role, serials: string): void {
    if ((this._sheet.dataset[role] ?? '') !== serials) {
      this._sheet.dataset[role] = serials;
      this.update();
    }
  }

  /** Pins these serial numbers, or unpins them if they are pinned. */
  pin(serials: string): void {
    this.set('pinned', this._sheet.dataset.pinned === serials ? '' : serials);
  }

  update(): void {
    const { pointed = '', pinned = '' } = this._sheet.dataset;
    this._sheet.textContent = rules(pointed, 'dashed') + rules(pinned, 'solid');
    for (const pill of pillsIn(this._page)) {
      pill.setAttribute('aria-pressed', String(pinned !== '' && pinned === serialsOf(pill)));
    }
  }

  private _page: ParentNode;
  private _sheet: HTMLStyleElement;
}

function rules(serials: string, line: string): string {
  return serials
    .split(' ')
    .filter(serial => serial !== '')
    .map(serial => `[data-rfnb-dim~="${serial}"]`)
    .map(
      dim =>
        `${dim}{outline:2px ${line};outline-offset:1px}svg ${dim}{outline:none}svg ${dim} :is(rect,path){stroke:#d55e00;stroke-width:2px}`
    )
    .join('');
}

function press(event: KeyboardEvent, root: HTMLElement, page: HighlightedDims): void {
  const pill = (event.target as Element).closest<HTMLElement>(PILL);
  const step = STEPS[event.key] ?? 0;
  if (event.key === 'Escape') {
    page.set('pinned', '');
  } else if (pill && (event.key === 'Enter' || event.key === ' ')) {
    page.pin(serialsOf(pill));
    event.preventDefault();
  } else if (pill && step !== 0) {
    const pills = pillsIn(root).filter(isShown);
    const next = pills[pills.indexOf(pill) + step];
    if (next) {
      next.focus();
      giveTabStop(root, next);
    }
    event.preventDefault();
  }
}

function giveTabStop(root: HTMLElement, stop?: HTMLElement): void {
  const pills = pillsIn(root);
  const chosen = stop ?? pills.find(isShown);
  pills.forEach(pill => (pill.tabIndex = pill === chosen ? 0 : -1));
}

/** The pills that are buttons: not those in a summary, which is a button itself. */
function pillsIn(root: ParentNode): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>(PILL)].filter(pill => !pill.closest('summary'));
}

/** Whether no closed <details> hides the pill. */
function isShown(pill: Element): boolean {
  return pill.closest('details:not([open])') === null;
}

function serialsAt(event: Event): string {
  const marked = (event.target as Element).closest(MARKED);
  return marked ? serialsOf(marked) : '';
}

/** The serial numbers; only digits, because they go into a style sheet. */
function serialsOf(marked: Element): string {
  return (marked.getAttribute('data-rfnb-dim')?.match(/\d+/g) ?? []).join(' ');
}
