import { SyncError } from '../../../core/errors.ts';
import { usage } from '../../../core/usage-error.ts';
import type { EntityTarget } from '../../../settings/entity-target.ts';
import type { SettingsWith } from '../../../settings/settings.ts';
import { resolveConnector } from '../../../source/api/resolve-connector.ts';
import { searchCall } from '../../../source/api/search-call.ts';
import type { CommandContext } from '../../command-context.ts';
import { openPatientApp } from '../../output/tell-waits.ts';
import type { Searcher } from './searcher.ts';

/**
 * Asks the API's indexed store. Throws USAGE for an entity that is not in it, and what finding the connector throws.
 */
export async function openRemoteSearcher(
  context: CommandContext,
  settings: SettingsWith<'access'>,
  { name, connector, entity }: EntityTarget,
): Promise<Searcher> {
  const { definition, address } = connector;
  if (address.kind === 'direct') {
    throw usage(
      `${connector.name} is read directly, and only an API has an indexed store. Without --remote the stored records are searched.`,
    );
  }
  if (!entity.actions.has('context_store_search')) {
    const searchable = [...definition.entities.values()].filter(({ actions }) =>
      actions.has('context_store_search'),
    );
    const names = searchable.map((one) => one.name).join(', ');
    throw usage(
      `${name} cannot be searched at the API; ${names === '' ? 'no entity of the connector can' : `these can: ${names}`}. Without --remote the stored records are searched.`,
    );
  }
  const { signal } = context;
  const app = await openPatientApp(context, settings, 'search');
  try {
    const id = await resolveConnector(app.client, definition, address, signal);
    const budget = app.client.openBudget(1, connector.requestsPerSecond);
    return {
      search: async (params) => {
        const call = searchCall({ connector: id, definition, entity, params });
        try {
          return await app.client.call(call, budget, () => undefined, signal);
        } catch (error) {
          throw aboutSearch(error);
        }
      },
      [Symbol.asyncDispose]: () => app[Symbol.asyncDispose](),
    };
  } catch (error) {
    await app[Symbol.asyncDispose]();
    throw error;
  }
}

/** The service says "no" to a query in the same way as to everything else it cannot use. */
function aboutSearch(error: unknown): unknown {
  if (!(error instanceof SyncError) || error.code !== 'REQUEST_REFUSED') return error;
  const { context } = error;
  if (/not[_ ]ready|building preview|loading/i.test(error.message)) {
    return new SyncError(
      'The indexed store of this connector is not ready: the service is still filling it. Try again later; without --remote the stored records are searched.',
      { code: 'UPSTREAM', recovery: 'retry', context, cause: error },
    );
  }
  return new SyncError(error.message, { code: 'SEARCH_INVALID', recovery: 'stop', context, cause: error });
}
