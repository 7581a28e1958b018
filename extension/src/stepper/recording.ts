import type { IShown } from './shown';

/** Whether the kernel records the loops of plain Python in all cells that run. */
export class Recording {
  constructor(shown: IShown, onChange: () => void) {
    this._shown = shown;
    this._onChange = onChange;
  }

  /** null if that is not known, or if the kernel's rfnb cannot do it. */
  get on(): boolean | null {
    return this._on;
  }

  /** Ask the kernel. */
  async ask(): Promise<void> {
    try {
      this._set(await this._shown.connection.requests.request('record_cells', {}));
    } catch {
      this._set(null); // an older rfnb
    }
  }

  /** Record the cells that run from now on, or do not. */
  async switch(on: boolean): Promise<void> {
    this._set(on);
    try {
      this._set(await this._shown.connection.requests.request('record_cells', { on }));
    } catch (error) {
      this._set(null);
      this._shown.complain(error);
    }
  }

  /** The kernel is gone. */
  clear(): void {
    this._on = null;
  }

  private _set(on: boolean | null): void {
    this._on = on;
    this._onChange();
  }

  private _shown: IShown;
  private _onChange: () => void;
  private _on: boolean | null = null;
}
