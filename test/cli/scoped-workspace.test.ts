import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { cliSecret, startCliService, writeCliConfig } from '../support/cli-config.ts';
import { callCli, jsonLines, type CliResult } from '../support/run-cli.ts';

let folder: string;
let service: Service;
let config: string;
let elsewhere: string;

it.beforeAll(async ({ fileFolder: made }) => {
  folder = made;
  service = await startCliService();
  config = await writeCliConfig(folder, service.url);
  const text = readFileSync(config, 'utf8');
  const scopedTo = (workspace: string): string =>
    text.replace('clientId: local,', `clientId: local, scopedToWorkspace: ${workspace},`);
  writeFileSync(config, scopedTo('default'));
  elsewhere = join(folder, 'elsewhere.yaml');
  writeFileSync(elsewhere, scopedTo('another'));
});
afterAll(() => service.close());

describe('with api.scopedToWorkspace', () => {
  it('a sync and everything around it works in that workspace', async () => {
    const checked = await cli('check');
    expect(checked.stdout).toMatch(/^✓ credentials: /m);
    expect(checked.code).toBe(0);
    expect(await cli('sync', 'newsletter', '--select', 'lists')).toMatchObject({ code: 0 });
    expect((await cli('definitions')).stdout).toContain('email-marketing');
  });

  it('the connectors of that workspace are all there is', async () => {
    const [document] = jsonLines(await cli('connectors', 'list', '--json'));
    expect(document).toMatchObject({
      connectors: [
        { workspace: 'default', id: 'c-news', configured: ['newsletter'] },
        { workspace: 'default', id: 'c-wiki' },
      ],
    });
  });

  it('a connector is created and deleted in that workspace', async () => {
    const create = [
      'connectors',
      'create',
      '--workspace',
      'default',
      '--definition',
      'email-marketing',
      '--json',
    ];
    const made = await cliWith('{"api_key":"planted-key-us1"}', config, ...create);
    const id = /"id":"([^"]+)"/.exec(made.stdout)?.[1] ?? '';
    expect(made).toMatchObject({ code: 0 });
    const gone = await cli('connectors', 'delete', id, '--yes', '--json');
    expect(jsonLines(gone)).toMatchObject([{ id, isDone: true, job: expect.any(String) as string }]);
    expect((await cli('connectors', 'list', '--json')).stdout).not.toContain(id);
  });

  it('what belongs to the whole organization or to another workspace is out of reach', async () => {
    const workspaces = await cli('workspaces', 'list');
    expect(workspaces.code).toBe(1);
    expect(workspaces.stderr).toMatch(
      /list workspaces was answered with 403 .*check what the credentials may do/,
    );
    const synced = await cliWith('', elsewhere, 'sync', 'newsletter', '--select', 'lists', '--json');
    expect(synced.code).not.toBe(0);
    expect(synced.stdout).toContain('CONNECTOR_UNKNOWN');
    const created = ['connectors', 'create', '--workspace', 'default', '--definition', 'email-marketing'];
    expect((await cliWith('{"api_key":"planted-key-us1"}', elsewhere, ...created)).code).toBe(1);
  });
});

describe('without it', () => {
  it('workspaces are listed, with those that a scoped token was asked for', async () => {
    const open = join(folder, 'open.yaml');
    writeFileSync(open, readFileSync(config, 'utf8').replace('scopedToWorkspace: default,', ''));
    const [document] = jsonLines(await cliWith('', open, 'workspaces', 'list', '--json'));
    expect(document).toMatchObject({
      workspaces: [{ name: 'default', status: 'active' }, { name: 'another' }],
    });
    const named = await cliWith('', open, 'workspaces', 'list', '--name', 'NOTH');
    expect(named.stdout).toMatch(/^name +id +status +created\nanother +\S+ +active +\S+\n$/);
  });
});

function cli(...args: readonly string[]): Promise<CliResult> {
  return cliWith('', config, ...args);
}

function cliWith(stdin: string, file: string, ...args: readonly string[]): Promise<CliResult> {
  const env = { SECRET: cliSecret };
  return callCli([...args, '--config', file], { cwd: folder, env, stdin });
}
