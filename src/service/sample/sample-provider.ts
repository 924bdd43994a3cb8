import type { JsonObject } from '../../core/json.ts';
import type { PageTokens } from '../execute/page-tokens.ts';
import { listPage } from '../execute/list-page.ts';
import type { Provider, ProviderRequest } from '../provider.ts';
import type { SampleAccount } from './sample-account.ts';

/** A sample account as the third party behind a connector. Answers at once; a request whose signal is aborted is refused. */
export function sampleProvider(
  account: SampleAccount,
  of: { readonly connectorId: string; readonly pageTokens: PageTokens },
): Provider {
  return {
    list: async ({ entity, params, signal }) => {
      signal.throwIfAborted();
      return listPage({ ...of, account, entity, params });
    },
    get: async ({ entity, params, signal }): Promise<JsonObject | null> => {
      signal.throwIfAborted();
      return account.get(entity.name, params);
    },
    download: async ({ entity, params, signal }: ProviderRequest) => {
      signal.throwIfAborted();
      return account.file?.(entity.name, params) ?? null;
    },
  };
}
