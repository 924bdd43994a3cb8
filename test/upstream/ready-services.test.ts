import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished } from 'vitest';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { it } from '../support/it.ts';
import { calendly } from '../support/ready/calendly.ts';
import { chargebee } from '../support/ready/chargebee.ts';
import { freshdesk } from '../support/ready/freshdesk.ts';
import { github } from '../support/ready/github.ts';
import { gitlab } from '../support/ready/gitlab.ts';
import { pipedrive } from '../support/ready/pipedrive.ts';
import { stripe } from '../support/ready/stripe.ts';
import { woocommerce } from '../support/ready/woocommerce.ts';
import { zendesk } from '../support/ready/zendesk.ts';
import { callCli, startCli } from '../support/run-cli.ts';
import { hasMoreKills } from '../support/trials.ts';
import { openDirectWorld, worldRows } from '../support/upstream/direct-world.ts';
import { readyWorld } from '../support/upstream/upstream-world.ts';

const services = [stripe, github, gitlab, zendesk, pipedrive, woocommerce, freshdesk, chargebee, calendly];

describe.each(services)('the definition $name', (service) => {
  const { long, changed, deleted, sinceParam, settings = {} } = service;

  async function open() {
    const world = await readyWorld(service);
    const texts = Object.entries(settings).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
    const direct = openDirectWorld(world, {
      settings: texts.length === 0 ? '' : `    settings: { ${texts.join(', ')} }\n`,
    });
    onTestFinished(async () => {
      await direct[Symbol.asyncDispose]();
      await world[Symbol.asyncDispose]();
    });
    /** Expects the rows of every table to be the records of the service. */
    const expectRows = (): void => {
      const wanted = worldRows(world);
      for (const { name, table } of world.definition.entities.values()) {
        expect(direct.stored(table), name).toEqual(wanted.get(name));
      }
    };
    return { ...direct, fake: world.fake, expectRows };
  }

  // `npm test` kills the sync of two services: the others page in ways that other kills have tried.
  const isKilled = hasMoreKills || service === stripe || service === zendesk;
  it.runIf(isKilled)('reads every record, though it is killed in a listing', async () => {
    const { json, fake, expectRows, config, folder, env } = await open();
    const running = startCli(['sync', '--config', config], { cwd: folder, env });
    let seen = 0;
    fake.script({
      on: (request) => fake.asksFor(long)(request) && (seen += 1) === 3,
      effect: async (right) => {
        running.child.kill('SIGKILL');
        await once(running.child, 'close');
        return right();
      },
    });
    expect((await running.result).code).toBeNull();
    expect(seen).toBe(3);
    await json('sync');
    expectRows();
    expect(fake.requests.filter(({ status }) => status !== 200 && status !== null)).toEqual([]);
  });

  it('stores a change and a new record as a full read does, and finds what was deleted', async () => {
    const { json, fake, expectRows } = await open();
    const taken = fake.take(long);
    await json('sync');
    fake.takeRequests();
    fake.change(long, 3, changed);
    fake.put(
      long,
      taken.map((row) => ({ ...row, record: changed(row.record) })),
    );
    await json('sync');
    expectRows();
    if (sinceParam !== null) {
      const asked = fake.takeRequests().filter(fake.asksFor(long, fake.rowsOf(long)[3]?.params));
      expect(asked).not.toEqual([]);
      expect(asked.filter(({ query }) => !query.some(([name]) => name === sinceParam))).toEqual([]);
    }
    for (const [kind, rest] of Object.entries(deleted)) fake.change(kind, 1, rest);
    await json('sync', '--full');
    await json('sync', '--full');
    expectRows();
  });

  it('is complete, and a config that init makes of it lacks the credentials only', async ({ folder }) => {
    const run = (...args: readonly string[]) => callCli(args, { cwd: folder });
    const file = path.join(builtInDefinitionsFolder, `${service.name}.yaml`);
    expect(await run('definitions', 'check', file)).toMatchObject({ code: 0 });
    expect(readFileSync(file, 'utf8')).toMatch(/^# [^]*\n# Written from .*, never tried live:\n# .*https:/);
    const found = loadDefinitions([builtInDefinitionsFolder]).get(service.name);
    for (const entity of found?.entities.values() ?? []) {
      expect([entity.name, entity.description, entity.descriptions.size]).not.toContain(null);
    }
    expect((await run('init', '--direct', service.name)).code).toBe(0);
    const { code, stderr } = await run('check');
    const lines = stderr.trim().split('\n').slice(1);
    expect(code).toBe(2);
    expect(lines.filter((line) => !/the environment variable \w+ is not set/.test(line))).toEqual([]);
    expect((await run('sync', '--dry-run')).code).toBe(0);
  });
});
