import { expect, it } from 'vitest';
import { programName, shellWord } from '../../src/cli/environment.ts';

it.each([
  ['/usr/local/bin/connector-sync', { PATH: '/bin:/usr/local/bin' }, 'connector-sync'],
  ['/clone/dist/main.js', { PATH: '/clone/dist' }, 'npx --no-install connector-sync'],
  ['/clone/node_modules/.bin/connector-sync', { PATH: '/bin' }, 'npx --no-install connector-sync'],
  [
    '/clone/node_modules/.bin/connector-sync',
    { PATH: '/clone/node_modules/.bin', npm_command: 'exec' },
    'npx --no-install connector-sync',
  ],
])('%s with %o is called again as it can be', (script, env, name) => {
  expect(programName(script, env)).toBe(name);
});

it('writes a word as a shell reads it back', () => {
  expect(['a/b-c.yaml', 'my file', "it's"].map(shellWord)).toEqual([
    'a/b-c.yaml',
    "'my file'",
    String.raw`'it'\''s'`,
  ]);
});
