import type { ConnectorId } from '../../core/names.ts';
import type { Definition } from '../../definitions/definition.ts';
import type { DownloadRequest, ReceiveFile } from '../source.ts';
import type { StreamCall } from './api-caller.ts';
import type { CallFacts } from './call-failure.ts';
import { checkedBytes } from './checked-bytes.ts';
import { invalidFile } from './classify-failure.ts';
import { dispositionName } from './disposition-name.ts';
import type { BodyHead } from './receive-body.ts';
import { refuseEnvelope } from './refuse-envelope.ts';
import { stringifyParams } from './json-text.ts';

const mediaType = /^[!#$&^\w.+-]{1,100}\/[!#$&^\w.+-]{1,100}(\s*;[\x20-\x7e]*)?$/;
const maxTypeChars = 200;

/** `POST connectors/{id}/execute` with `download`: the answer is the file itself. */
export function downloadCall<T>(
  connector: ConnectorId,
  definition: Definition,
  { entity, params, size, maxBytes }: DownloadRequest,
  receive: ReceiveFile<T>,
): StreamCall<T> {
  const facts: CallFacts = {
    purpose: 'execute',
    label: `download ${entity}`,
    entity,
    isRoot: false,
    canShrink: false,
    hasPageToken: false,
    patterns: definition.errors,
  };
  return {
    request: {
      method: 'POST',
      path: `/api/v1/integrations/connectors/${connector}/execute`,
      query: {},
      body: stringifyParams({ entity, action: 'download', params }),
    },
    facts,
    headers: { accept: '*/*', 'accept-encoding': 'identity' },
    receive: async (head, body, signal) => {
      // Nobody asked for a part (206), and of a file that is yet to be made (202) nothing is there.
      if (head.status !== 200) {
        throw invalidFile(facts, `expected a file with HTTP 200, got HTTP ${head.status}`);
      }
      const name = dispositionName(head.contentDisposition);
      const announced = announcedBytes(head, facts);
      const checked = checkedBytes(body, { announced, recorded: size, max: maxBytes }, facts);
      const bytes = isJson(head) ? refuseEnvelope(checked, name !== null, facts) : checked;
      return await receive({ name, contentType: contentTypeOf(head), size: announced, bytes }, signal);
    },
  };
}

function announcedBytes({ contentEncoding, contentLength }: BodyHead, facts: CallFacts): number | null {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  // It was asked for as it is: its length could not be compared with anything, and what was meant is anybody's guess.
  if (encoding !== '' && encoding !== 'identity') {
    throw invalidFile(facts, 'expected the file as it is, got it with a content encoding');
  }
  return contentLength !== null && /^\d{1,15}$/.test(contentLength.trim()) ? Number(contentLength) : null;
}

function isJson({ contentType }: BodyHead): boolean {
  return /^\s*[^;]*[/+]json\s*(;|$)/i.test(contentType ?? '');
}

function contentTypeOf({ contentType }: BodyHead): string | null {
  const text = contentType?.trim() ?? '';
  return text.length <= maxTypeChars && mediaType.test(text) ? text : null;
}
