import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { formatProblem, ProblemsError } from '../../../src/core/problems.ts';
import { configView } from '../../../src/settings/config-view.ts';
import { loadSettings } from '../../../src/settings/load-settings.ts';
import type { Settings } from '../../../src/settings/settings.ts';
import { it as itWithFolder } from '../it.ts';

/** A config file that nothing is wrong with; tests break one part of it. */
export const goodConfig = `api:
  baseUrl: https://api.example.test/
  clientId: me
  clientSecret: "\${SECRET}"
sinks:
  warehouse: { type: sqlite, path: ./warehouse.db }
connectors:
  newsletter:
    definition: email-marketing
    id: c-1
    sink: warehouse
`;

/** A folder that config files are written to, with the environment they are read in. */
export interface ConfigFolder {
  readonly path: string;
  readonly env: Record<string, string | undefined>;
  readonly write: (name: string, text: string, mode?: number) => string;
  readonly load: (text: string) => Settings;
  /** What `config show` prints. */
  readonly view: (text: string) => Readonly<Record<string, unknown>>;
  /** Problems as people read them, without the file's name. */
  readonly problems: (text: string) => readonly string[];
}

/** `it` with such a folder. */
export const it = itWithFolder.extend('configs', ({ folder }) => configFolder(folder));

function configFolder(folder: string): ConfigFolder {
  const env: Record<string, string | undefined> = { SECRET: 'hush' };
  const write = (name: string, text: string, mode = 0o600): string => {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text, { mode });
    return file;
  };
  const load = (text: string): Settings => loadSettings({ file: write('config.yaml', text), env });
  const view = (text: string) => configView({ file: write('config.yaml', text), env });
  const problems = (text: string): readonly string[] => {
    try {
      load(text);
    } catch (error) {
      if (error instanceof ProblemsError && error.code === 'CONFIG_INVALID') {
        return error.problems.map((problem) => formatProblem(problem).replace(`${folder}/config.yaml`, ''));
      }
      throw error;
    }
    return [];
  };
  return { path: folder, env, write, load, view, problems };
}
