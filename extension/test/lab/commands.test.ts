import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import * as prettier from 'prettier';
import { describe, expect, it, vi } from 'vitest';

import { addPauseCommand, addResumeCommands, addStepCommands, commandSettings, PAUSE } from '../../src/lab/commands';
import type { ILoops } from '../../src/lab/tokens';
import { PLAIN } from '../../src/words';

describe('the settings of the commands', () => {
  it('are those in schema/commands.json; `jlpm test -u` writes them', async () => {
    const options = { ...(await prettier.resolveConfig('package.json')), parser: 'json' };
    const text = await prettier.format(JSON.stringify(commandSettings()), options);
    await expect(text).toMatchFileSnapshot('../../schema/commands.json');
  });
});

describe('the commands', () => {
  it('are told of when they change, each alone, and not at every step', () => {
    const session = { stepper: null as { canMove: boolean } | null, connection: { link: 'absent' }, pauses: false };
    const sender = {};
    const changed = new Signal<object, void>(sender);
    const commands = new CommandRegistry();
    const loops = { session, changed } as unknown as ILoops;
    const steps = addStepCommands(commands, loops, PLAIN);
    addPauseCommand(commands, loops, PLAIN);
    const told: string[] = [];
    commands.commandChanged.connect((_, { id, type }) => void told.push(type === 'changed' ? id! : type));
    const toldOf = (change: () => void) => {
      change();
      changed.emit();
      return told.splice(0);
    };
    expect(toldOf(() => undefined)).toEqual([]);
    expect(toldOf(() => (session.stepper = { canMove: true }))).toEqual(steps);
    expect(toldOf(() => undefined)).toEqual([]);
    expect(toldOf(() => (session.connection.link = 'ready'))).toEqual([PAUSE]);
    expect(toldOf(() => (session.pauses = true))).toEqual([PAUSE]);
    expect(toldOf(() => (session.stepper!.canMove = false))).toEqual(steps);
  });

  it('let a loop go on only while it is paused', () => {
    const resume = vi.fn();
    const session = { stepper: null, paused: null as object | null, resume };
    const commands = new CommandRegistry();
    const loops = { session, changed: new Signal<object, void>({}) } as unknown as ILoops;
    const ids = addResumeCommands(commands, loops, PLAIN);
    const enabled = () => ids.filter(id => commands.isEnabled(id));
    expect(enabled()).toEqual([]);
    session.paused = {};
    expect(enabled()).toEqual(['rfnb-lab:continue', 'rfnb-lab:finish-cell', 'rfnb-lab:stop-cell']); // nothing to match
    enabled().forEach(id => void commands.execute(id));
    expect(resume.mock.calls).toEqual([['continue'], ['run'], ['stop']]);
  });
});
