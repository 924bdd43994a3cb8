import { join } from 'node:path';
import { ordinaryPublication, publishTarget } from '../../app/publish-target.ts';
import { targetNamed } from '../../settings/chosen-targets.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import type { CommandContext } from '../command-context.ts';
import { publicationDocument, publicationText } from '../commands/publish/publication-text.ts';
import { shellWord } from '../program-name.ts';
import { demoParquet } from './demo-config.ts';

/** Publishes what the demo has stored, as Parquet; gives the line that says so. */
export async function publishDemo(context: CommandContext, settings: LocalSettings): Promise<string> {
  const { terminal, clock, signal } = context;
  const target = targetNamed(settings, demoParquet);
  terminal.note('Publishing it as Parquet ...');
  const startedMs = clock.now();
  const end = await publishTarget(target, {
    ...ordinaryPublication,
    clock,
    signal,
    onProgress: () => undefined,
  });
  const ms = clock.now() - startedMs;
  terminal.printJson(publicationDocument(target, end, ms));
  return publicationText(target, end, ms, context)[0] ?? '';
}

/** One line for a shell: what was published of an entity, by the DuckDB of the person. `directory` is the demo's. */
export function duckdbCommand(directory: string): string {
  const files = join(directory, demoParquet, 'newsletter', 'campaigns', '**', '*.parquet');
  const sql = `FROM '${files.replaceAll("'", "''")}'`;
  return `duckdb -c ${/["$`\\!]/.test(sql) ? shellWord(sql) : `"${sql}"`}`;
}
