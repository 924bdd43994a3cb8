import { relative, resolve } from 'node:path';
import { readPlainFile, type PlainListing } from '../../../definitions/import/plain-file.ts';
import { counted, printable } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';
import { exitCodes, type ExitCode } from '../../output/exit-codes.ts';
import { fittingTable, leftColumns } from '../../output/text-table.ts';

/** What a plain OpenAPI file lists, and the command that imports some of it. */
export function showListings({ terminal, cwd, program }: CommandContext, file: string): ExitCode {
  const { listings, gets } = readPlainFile(resolve(cwd, file));
  terminal.printJson({ gets, listings });
  terminal.print(
    `${counted(gets, 'GET operation', 'GET operations')}, of which ${listings.length} answer with a list.`,
  );
  const [first] = listings.toSorted((one, other) => placesIn(one) - placesIn(other));
  if (first === undefined) return exitCodes.failed;
  const rows = listings.map(({ path, entity, records, isDeprecated }) => [
    printable(path),
    entity ?? '-',
    printable(records.map((place) => place || 'the answer').join(' or ')),
    isDeprecated ? 'deprecated' : '',
  ]);
  const columns = leftColumns('path', 'entity', 'records', '');
  terminal.print(...fittingTable(columns, rows, terminal.columns()), '');
  const shown = relative(cwd, resolve(cwd, file));
  terminal.print(
    'Next, with a --path for each listing that you want:',
    `  ${program} definitions import ${shown} --from openapi --path ${quoted(printable(first.path))} -o my-definitions`,
  );
  return exitCodes.ok;
}

/** Deprecated ones and those below others are no example. */
function placesIn({ path, isDeprecated }: PlainListing): number {
  return path.split('{').length + (isDeprecated ? 10 : 0);
}

function quoted(path: string): string {
  return /^[\w/.-]+$/.test(path) ? path : `'${path.replaceAll("'", String.raw`'\''`)}'`;
}
