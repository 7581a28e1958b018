import * as prettier from 'prettier';
import { describe, expect, it } from 'vitest';

import { commandSettings } from '../../src/lab/commands';

describe('the settings of the commands', () => {
  it('are those in schema/commands.json; `jlpm test -u` writes them', async () => {
    const options = { ...(await prettier.resolveConfig('package.json')), parser: 'json' };
    const text = await prettier.format(JSON.stringify(commandSettings()), options);
    await expect(text).toMatchFileSnapshot('../../schema/commands.json');
  });
});
