import { oneConnectorActs } from '../../app/acts.ts';
import { readDrift } from '../../app/read-statuses.ts';
import { isDeclaredName, systemColumns } from '../../core/names.ts';
import { usage } from '../../core/errors.ts';
import { isReservedName } from '../../definitions/read-yaml.ts';
import { chosenConnectors, connectorNamed, targetsOf } from '../../settings/choices.ts';
import type { ConnectorSettings } from '../../settings/settings.ts';
import type { DriftRow } from '../../sinks/readings.ts';
import { counted, toTheMinute } from '../../telemetry/format.ts';
import { command } from '../command.ts';
import { perform } from './act-commands.ts';
import { indentedTable, leftColumns } from '../output/text-table.ts';

export const schema = command({
  commands: {
    diff: command({
      description:
        'List undeclared fields and values that do not fit their column, with lines to declare them.',
      argument: ['[connector]', 'a name from the config (default: all)'],
      options: {
        '--known': 'mark the new fields of the connector as known, so that no one has to look at them again',
      },
      help: `
Nothing of it is lost: it is kept in _extra, in a column of its own (onSchemaChange: evolve) or in quarantine. Fields that the
definition has come to declare are no longer shown.

Examples:
  $ connector-sync schema diff newsletter
  $ connector-sync schema diff newsletter --known`,
      run: async (context, { known }, name) => {
        const { terminal } = context;
        if (known) {
          if (name === undefined) throw usage('Expected the name of a connector with --known, got none.');
          const connector = connectorNamed(await context.settings(), name);
          return await perform(context, oneConnectorActs['mark-known'], connector);
        }
        const connectors = chosenConnectors(await context.settings(), name === undefined ? [] : [name]);
        const found = await Promise.all(
          connectors.map(async (connector) => ({ connector, drift: await readDrift(connector) })),
        );
        terminal.printJson({
          connectors: found.map(({ connector, drift }) => ({
            connector: connector.name,
            definition: connector.definition.name,
            isSynced: drift !== null,
            drift: (drift ?? []).map((row) => ({ ...row, line: declarationOf(row) })),
          })),
        });
        for (const { connector, drift } of found) {
          terminal.print(...driftText(connector, drift, terminal.columns()));
        }
      },
    }),
  },
});

/** Words that YAML does not read as names unless they are quoted. */
const notPlain = /^(?:null|true|false|yes|no|on|off|y|n)$/;

/** Describes the drift of one connector for a person. Field names come from outside: tables make them inert. */
function driftText(connector: ConnectorSettings, drift: readonly DriftRow[] | null, width: number | null) {
  const { name, definition, sink } = connector;
  if (drift === null) return [`${name}: not synced yet (sink ${sink.name})`];
  if (drift.length === 0) return [`${name}: no drift (${definition.name}, sink ${sink.name})`];
  const fields = counted(drift.length, 'field');
  const rows = drift.map((row) => [
    row.entity,
    row.field === '*' ? '* (names beyond the first 200)' : row.field,
    row.types.join(', '),
    row.kind === 'misfit' ? `does not fit ${typeIn(connector, row)}` : 'undeclared',
    places[row.place],
    toTheMinute(row.firstSeenAt),
    declarationOf(row) ?? '',
  ]);
  return [
    `${name}: ${fields} not declared by ${definition.name} (sink ${sink.name}); paste the last column below "fields:" to declare them`,
    ...indentedTable(columns, rows, width),
  ];
}

/**
 * The line that declares the field, for insertion below `fields:`; null if no definition can have it, or the definition
 * has it already.
 */
export function declarationOf({ field, kind, types }: Pick<DriftRow, 'field' | 'kind' | 'types'>) {
  if (kind === 'misfit' || !isDeclaredName(field) || isReservedName(field) || systemColumns.has(field)) {
    return null;
  }
  const [first, ...others] = new Set(types.filter((type) => type !== 'null'));
  const areNumbers = [first, ...others].every((type) => type === 'integer' || type === 'number');
  const type = others.length === 0 ? (first ?? 'any') : areNumbers ? 'number' : 'any';
  return `${notPlain.test(field) ? `'${field}'` : field}: ${type}`;
}

function typeIn(connector: ConnectorSettings, { entity, field }: DriftRow): string {
  const target = targetsOf(connector).find(({ table }) => table.entity === entity);
  return target?.table.columns.find(({ name }) => name === field)?.type ?? 'its column';
}

const places: Readonly<Record<DriftRow['place'], string>> = {
  extra: '_extra',
  column: 'a column',
  quarantine: 'quarantine',
};

const columns = leftColumns('entity', 'field', 'came as', 'is', 'kept in', 'first seen', 'to declare it');
