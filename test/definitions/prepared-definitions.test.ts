import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import {
  builtInDefinitionsFolder,
  loadDefinitions,
  prepareDefinitions,
  type PreparedDefinitions,
} from '../../src/definitions/load-definitions.ts';
import { buildDefinition } from '../../src/definitions/definition.ts';

const config = `api: { baseUrl: "https://api.example.com", clientId: a, clientSecret: b-long-enough-to-be-one }
sinks:
  main: { type: sqlite, path: ./main.db }
connectors:
  newsletter: { definition: email-marketing, id: c-news, sink: main }
`;

describe('the definitions that a build has checked', () => {
  // Proves promise 19.1
  it('say the same as the YAML files', () => {
    const built = JSON.parse(readFileSync('dist/definitions.json', 'utf8')) as PreparedDefinitions;
    expect(built).toEqual(prepareDefinitions(builtInDefinitionsFolder));
    const definitions = Object.values(built).map(({ file, contentHash }) =>
      buildDefinition(file, contentHash),
    );
    const fromYaml = loadDefinitions([builtInDefinitionsFolder]);
    expect(new Map(definitions.map((definition) => [definition.name, definition]))).toEqual(fromYaml);
    expect(definitions.length).toBeGreaterThanOrEqual(3);
  });

  it('are refused by the build where anything is wrong with one', ({ folder }) => {
    writeFileSync(join(folder, 'broken.yaml'), 'name: broken\n');
    expect(() => prepareDefinitions(folder)).toThrow('broken.yaml');
  });

  describe('in an installed program', () => {
    let folder: string;

    it.beforeEach(({ folder: made }) => {
      folder = made;
      for (const name of ['dist', 'config/definitions', 'package.json']) {
        cpSync(name, join(folder, name), { recursive: true, filter: (path) => !/\.bench|\.test/.test(path) });
      }
      symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
      writeFileSync(join(folder, 'c.yaml'), config);
    });

    const status = (): Promise<{ code: number | null; output: string }> =>
      new Promise((done) => {
        const child = execFile(
          process.execPath,
          [join(folder, 'dist/main.js'), 'status', '--config', 'c.yaml'],
          { cwd: folder },
          (_, stdout, stderr) => done({ code: child.exitCode, output: stdout + stderr }),
        );
      });

    // Proves promise 19.1
    it('do not stand for a file that was changed since', async () => {
      expect(await status()).toMatchObject({ code: 0 });
      const file = join(folder, 'config/definitions/document-library.yaml');
      const line = readFileSync(file, 'utf8').split('\n').length;
      appendFileSync(file, 'unexpected: 1\n');
      const changed = await status();
      expect(changed.code).toBe(2);
      expect(changed.output).toContain(`document-library.yaml:${line}`);
    });

    // Proves promise 19.1
    it('may be missing: then the YAML files are read', async () => {
      rmSync(join(folder, 'dist/definitions.json'));
      expect(await status()).toMatchObject({
        code: 0,
        output: expect.stringContaining('not synced yet') as string,
      });
    });
  });
});
