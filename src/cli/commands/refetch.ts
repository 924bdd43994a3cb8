import type { Command } from 'commander';
import { openApp } from '../../app/app.ts';
import { addCounts, noCounts, type PageCounts, type Params } from '../../core/records.ts';
import { usage } from '../../core/usage-error.ts';
import { knownSchema } from '../../engine/prepare/schema-policy.ts';
import { runRepair, type RepairWork } from '../../engine/repair/run-repair.ts';
import { findGetParams } from '../../engine/sweep/find-get-params.ts';
import { entityTarget, type EntityTarget } from '../../settings/entity-target.ts';
import { openSink, openExistingRecords } from '../../sinks/registry.ts';
import type { Sink } from '../../sinks/sink.ts';
import type { CommandContext, Enter } from '../command-context.ts';
import { connectorIdentity } from '../../app/connector-identity.ts';
import type { ExitCode } from '../output/exit-codes.ts';
import { loadConfig } from '../load-config.ts';
import { parseRecordKey, type RecordKey } from '../record-key.ts';
import { placeRecord } from '../../app/place-record.ts';
import { readRefetched, type RefetchedRows } from '../../app/read-refetched.ts';
import { tellRefetched, type Refetched } from './refetch/tell-refetched.ts';
import { storedFields } from '../stored-fields.ts';
import { tellWaits } from '../output/tell-waits.ts';

interface RefetchFlags {
  readonly key?: readonly string[];
  readonly allowDeletes?: boolean;
}

interface Asked {
  readonly target: EntityTarget;
  readonly key: RecordKey;
  readonly params: Params;
  readonly inject: Params;
}

export function addRefetch(command: Command, enter: Enter): void {
  command
    .argument('<connector/entity>', 'such as newsletter/list_members')
    .option('-k, --key <name=value...>', 'every field of its key')
    .option(
      '--allow-deletes',
      'mark the stored record, and the rows below it, as deleted if the API has no such record',
    )
    .addHelpText(
      'after',
      `
Examples:
  $ connector-sync refetch newsletter/campaigns --key id=c1
  $ connector-sync refetch newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08`,
    )
    .action((target: string, flags: RefetchFlags) => enter((context) => runRefetch(context, target, flags)));
}

async function runRefetch(context: CommandContext, name: string, flags: RefetchFlags): Promise<ExitCode> {
  const { clock, signal, program } = context;
  const settings = loadConfig(context, 'api');
  const asked = await askedOf(entityTarget(settings, name), flags, program);
  const { connector, entity } = asked.target;
  const command = 'connector-sync refetch';
  await using app = await openApp({ settings, clock: tellWaits(context), command });
  await using source = await app.openSource(connector, signal);
  await using sink = await openSink(connector.sink, context);
  const schema = await knownSchema(connector.definition, connector.entities, sink.drift, connector.name);
  const evolved = schema.definition.entities.get(entity.name) ?? entity;
  const origin = { baseUrl: settings.api.baseUrl, connectorId: source.connectorId };
  let refetched: Refetched = { kind: 'missing' };
  const report = await runRepair(
    {
      kind: 'refetch',
      sink,
      identity: connectorIdentity(connector, origin, { clock, command }),
      tables: evolved.explodedTable === null ? [evolved.table] : [evolved.table, evolved.explodedTable],
      clock,
      costs: () => source.stats(),
    },
    async () => {
      const answer = await source.get({ entity: entity.name, params: asked.params }, signal);
      const place = { keyText: asked.key.keyText, inject: asked.inject };
      if (answer !== null) {
        const rows = readRefetched(evolved, schema.policies, place, answer);
        return storing(sink, rows, (counts) => (refetched = { kind: 'stored', counts }));
      }
      return flags.allowDeletes === true
        ? deleting(sink, asked, (wasStored) => (refetched = { kind: 'deleted', wasStored }))
        : null;
    },
  );
  return tellRefetched(context, asked.target, { ...refetched, run: report?.run ?? null });
}

/** Everything that can be known to be impossible before a call. Throws USAGE. */
async function askedOf(
  target: EntityTarget,
  { key: texts = [] }: RefetchFlags,
  program: string,
): Promise<Asked> {
  const { name, connector, entity, isExploded } = target;
  if (isExploded) {
    throw usage(
      `${name} holds elements of ${entity.name}; refetch the record of ${entity.name} that has them.`,
    );
  }
  if (!entity.actions.has('get')) {
    throw usage(
      `${entity.name} has the actions ${[...entity.actions.keys()].join(', ')}, not get, so one record of it cannot be read.`,
    );
  }
  const key = parseRecordKey(entity.table, texts);
  await using reader = await openExistingRecords(connector.sink);
  const stored =
    reader === null ? null : await storedFields(reader, connector.name, entity.name, key.keyText);
  const inject = placeRecord(entity, key, stored);
  const sync = `"${program} sync ${connector.name} --select ${entity.name}"`;
  if (inject === null) {
    throw usage(
      `${name} ${key.keyText} is not stored, and its key alone does not say which listing it belongs to. A sync finds it: ${sync}.`,
    );
  }
  const params = findGetParams(entity, { keyText: key.keyText, inject, params: {} });
  if (params === null) {
    throw usage(
      `${name} ${key.keyText}: get needs more than the key says (${[...(entity.actions.get('get')?.params.keys() ?? [])].join(', ')}). Read it with ${sync}.`,
    );
  }
  return { target, key, params, inject };
}

function storing(sink: Sink, rows: RefetchedRows, onStored: (counts: PageCounts) => void): RepairWork {
  return async (lease, run, onDone) => {
    for (const [index, { entity, records }] of rows.entries()) {
      let counts = noCounts;
      for (const record of records) {
        counts = addCounts(counts, await sink.repair.storeRecord(lease, run, entity, record));
        onDone({ entity, counts, deleted: 0 });
      }
      if (index === 0) onStored(counts);
    }
  };
}

function deleting(sink: Sink, { target, key }: Asked, onDeleted: (wasStored: boolean) => void): RepairWork {
  return async (lease, run, onDone) => {
    const { name: entity } = target.entity;
    const wasStored = await sink.repair.tombstoneRecord(lease, run, entity, key.keyText);
    onDone({ entity, counts: noCounts, deleted: wasStored ? 1 : 0 });
    onDeleted(wasStored);
  };
}
