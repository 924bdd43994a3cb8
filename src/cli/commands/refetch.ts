import { askedRecord, refetchRecord, type Refetched } from '../../app/refetch-record.ts';
import { entityTarget } from '../../settings/choices.ts';
import { command } from '../command.ts';
import { exitCodes } from '../output/exit-codes.ts';
import { openPatientApp } from '../output/show-run.ts';

export const refetch = command({
  argument: ['<connector/entity>', 'such as newsletter/list_members'],
  options: {
    '-k, --key <name=value...>': 'every field of its key',
    '--allow-deletes':
      'mark the stored record, and the rows below it, as deleted if the API has no such record',
  },
  help: `
Examples:
  $ connector-sync refetch newsletter/campaigns --key id=c1
  $ connector-sync refetch newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08`,
  run: async (context, { key, allowDeletes }, name) => {
    const { clock, signal, program } = context;
    const settings = await context.settings('access');
    const asked = await askedRecord(entityTarget(settings, name), key, program);
    const command = 'connector-sync refetch';
    await using app = await openPatientApp(context, settings, 'refetch');
    const refetched = await refetchRecord(app, asked, { clock, command, allowDeletes, signal });
    const { run } = refetched;
    const result = resultOf(refetched);
    context.terminal.printJson({ target: name, result, run });
    const text = texts[result](asked.target.entity.name);
    context.terminal.print(`${name}: ${text}${run === null ? '' : ` (run ${run})`}`);
    // 0 if the sink now matches the service, 3 if it may not.
    return result === 'missing' ? exitCodes.degraded : exitCodes.ok;
  },
});

type Result = 'inserted' | 'updated' | 'unchanged' | 'deleted' | 'not-stored' | 'missing';

function resultOf(refetched: Refetched): Result {
  switch (refetched.kind) {
    case 'stored': {
      const { inserted, updated } = refetched.counts;
      if (inserted > 0) return 'inserted';
      return updated > 0 ? 'updated' : 'unchanged';
    }
    case 'deleted':
      return refetched.wasStored ? 'deleted' : 'not-stored';
    case 'missing':
      return 'missing';
  }
}

const texts: Readonly<Record<Result, (entity: string) => string>> = {
  inserted: () => 'inserted',
  updated: () => 'updated',
  unchanged: () => 'unchanged: the stored record is the same as at the API',
  deleted: (entity) =>
    `deleted: the API has no such record; the next sync of ${entity} deletes the records below it`,
  'not-stored': () => 'the API has no such record, and none is stored',
  missing: () =>
    'the API has no such record; nothing was changed. --allow-deletes marks a stored one as deleted.',
};
