import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { ISignal } from '@lumino/signaling';
import { PanelLayout, Widget } from '@lumino/widgets';

import { enhance, Scripts } from '../pictures/enhance';
import type { Words } from '../words';

/** The data that a cell's output carries for scripts; beside a widget, also the ids of its kernel and model. */
export interface ViewEntry extends Scripts {
  session?: string;
  model_id?: string;
  kernel_id?: string;
}

const VIEW = 'application/vnd.rfnb.view+json';
const WIDGET = 'application/vnd.jupyter.widget-view+json';
const HTML = 'text/html';
const TEXT = 'text/plain';

/** Ranks before widgets, which show an error instead of the HTML beside them when their kernel has gone. */
const RANK = -20;

/** The MIME type to show: the live widget if its kernel lives and it is trusted, else the HTML. */
function chooseMime(options: { trusted: boolean; alive: boolean; offered: readonly string[] }): string {
  const live = options.trusted && options.alive && options.offered.includes(WIDGET);
  return live ? WIDGET : options.offered.includes(HTML) ? HTML : TEXT;
}

/** The notebook that contains an output: its renderers, and the kernel and session of rfnb. */
export interface IHome {
  rendermime: Pick<IRenderMimeRegistry, 'createRenderer' | 'getFactory'>;
  kernel: string | null;
  session: string | null;
}

/** Finds the notebook of an output by the resolver of the output, and emits when a kernel comes or goes. */
export interface IHomes {
  find(resolver: IRenderMime.IResolver | null): IHome | null;
  changed: ISignal<unknown, void>;
}

/** Registers the renderer of rfnb's outputs. */
export function addViewRenderer(registry: IRenderMimeRegistry, homes: IHomes, words: Words): void {
  const factory: IRenderMime.IRendererFactory = {
    safe: true,
    mimeTypes: [VIEW],
    createRenderer: options => new ViewRenderer(registry, options, homes, words)
  };
  registry.addFactory(factory, RANK);
}

/** Delegates to the renderer of the chosen MIME type; chooses again when a kernel comes or goes. */
class ViewRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(
    registry: IRenderMimeRegistry,
    options: IRenderMime.IRendererOptions,
    homes: IHomes,
    private _words: Words
  ) {
    super({ node: document.createElement('div') });
    this._registry = registry;
    this._options = options;
    this._homes = homes;
    this.addClass('rfnb-View');
    this.layout = new PanelLayout();
    homes.changed.connect(this._onChanged, this);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._model = model;
    this._shown = null;
    await this._show(model);
  }

  dispose(): void {
    this._homes.changed.disconnect(this._onChanged, this);
    this._release();
    super.dispose();
  }

  private _onChanged(): void {
    if (this._model) {
      void this._show(this._model);
    }
  }

  private async _show(model: IRenderMime.IMimeModel): Promise<void> {
    const entry = model.data[VIEW] as unknown as ViewEntry;
    const home = this._homes.find(this._options.resolver);
    const alive = home?.kernel === entry.kernel_id && home?.session === entry.session;
    const mimeType = chooseMime({ trusted: model.trusted, alive, offered: Object.keys(model.data) });
    if (mimeType !== this._shown && !this.isDisposed) {
      this._shown = mimeType;
      const inner = (home?.rendermime ?? this._registry).createRenderer(mimeType);
      await inner.renderModel(model);
      const layout = this.layout as PanelLayout;
      this._release();
      this._inner?.dispose();
      this._inner = inner;
      layout.addWidget(inner);
      this._release = mimeType === HTML && model.trusted ? enhance(inner.node, entry, this._words) : () => undefined;
    }
  }

  private _registry: IRenderMimeRegistry;
  private _options: IRenderMime.IRendererOptions;
  private _homes: IHomes;
  private _model: IRenderMime.IMimeModel | null = null;
  private _shown: string | null = null;
  private _inner: IRenderMime.IRenderer | null = null;
  private _release: () => void = () => undefined;
}
