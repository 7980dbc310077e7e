import type { ClientBase } from 'pg';
import { type Finding, ok, warn } from '../postgres/finding.ts';

/** What the lines of the bills imported so far are good for. */
export type BillLines = {
  readonly bills: number;
  readonly lines: number;
  /** Lines with the tag of a dispatch: they meet it even if its answer never came. */
  readonly tagged: number;
  /** Lines without a tag that name the provider's request or message: they meet a dispatch whose answer came. */
  readonly named: number;
};

/** Reads the bills of all batches; of a file that another continues, the longer one counts. */
export async function readBillLines(client: ClientBase): Promise<BillLines> {
  const { rows } = await client.query<BillLines>(
    `SELECT count(DISTINCT b.id)::integer AS bills, count(l.line_no)::integer AS lines, count(l.tag)::integer AS tagged,
            count(*) FILTER (WHERE l.tag IS NULL AND (l.provider_request_id IS NOT NULL OR l.message_id IS NOT NULL))::integer AS named
       FROM madrugada.bill b LEFT JOIN madrugada.bill_line l ON l.bill_id = b.id
      WHERE NOT EXISTS (SELECT FROM madrugada.bill longer WHERE longer.continues = b.id)`,
  );
  const [lines] = rows;
  if (lines === undefined) throw new Error('no bills');
  return lines;
}

/** Which proof a bill allows: per dispatch, per call, or only per model and time. */
export function attestBill({ bills, lines, tagged, named }: BillLines): Finding {
  const check = 'bill';
  if (lines === 0)
    return warn(
      check,
      bills === 0
        ? 'no bill is imported yet: what was charged is the journal’s word alone'
        : 'the imported bills have no lines: they prove nothing yet',
      'after a night: madrugada bill import ID FILE, then madrugada audit ID',
    );
  if (tagged === lines)
    return ok(
      check,
      `a line per call, each with its tag: it proves dispatch by dispatch, those in doubt too (${lines} lines)`,
    );
  const tag =
    'carry the tag to where the bill is written: MADRUGADA_TAG_HEADERS, MADRUGADA_TAG_LITELLM or MADRUGADA_TAG_BODY';
  if (tagged + named === lines)
    return warn(
      check,
      `a line per call, ${named} of ${lines} without a tag: it proves call by call where the answer came; one in doubt is met only by its tag`,
      tag,
    );
  return warn(
    check,
    `${lines - tagged - named} of ${lines} lines name no call: an aggregated bill, which proves sums per model and time, not that no call was paid twice`,
    `ask the provider for a line per call, and ${tag}`,
  );
}
