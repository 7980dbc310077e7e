import type { ClientBase } from 'pg';

/** What the proofs of a batch come to. */
export interface Verdict {
  /** What is wrong or not proven yet, in words; empty: everything is proven. */
  problems: string[];
  /** Dispatches that may have been charged although no answer came: named, and no fault. */
  inDoubt: number;
}

interface Totals {
  tasks: number;
  completed: number;
  failed: number;
  calls: number;
  charged: number;
  billCharges: number;
  inDoubt: number;
  unpriced: number;
  bills: number;
  duplicates: number;
  unnamed: number;
  unmatched: number;
}

/** Judges a batch by its audit views. */
export async function judgeBatch(client: ClientBase, batchKey: string): Promise<Verdict> {
  const { rows } = await client.query<Totals>(
    `SELECT t.tasks, t.completed, t.failed, t.calls, t.charged, t.bill_charges AS "billCharges", t.in_doubt AS "inDoubt", t.unpriced, t.bills,
            (SELECT count(*) FROM madrugada.audit_duplicate_charges d WHERE d.batch_key = t.batch_key) AS duplicates,
            (SELECT count(*) FROM madrugada.audit_duplicate_charges d WHERE d.batch_key = t.batch_key AND NOT d.named_in_doubt) AS unnamed,
            (SELECT count(*) FROM madrugada.audit_unmatched u WHERE u.batch_key = t.batch_key) AS unmatched
       FROM madrugada.audit_batch_totals t WHERE t.batch_key = $1`,
    [batchKey],
  );
  const [totals] = rows;
  if (totals === undefined) throw new Error(`no totals for batch ${batchKey}`);
  return { problems: problemsOf(totals), inDoubt: totals.inDoubt };
}

function problemsOf({
  tasks,
  completed,
  failed,
  bills,
  duplicates,
  unnamed,
  unmatched,
  unpriced,
  ...t
}: Totals): string[] {
  const unfinished = tasks - completed - failed;
  return [
    ...(unfinished > 0 ? [`${unfinished} of ${tasks} tasks are not finished`] : []),
    ...(failed > 0 ? [`${failed} of ${tasks} tasks failed`] : []),
    ...(bills === 0 ? ['no bill is imported: what was charged is the journal’s word alone'] : []),
    ...(duplicates > 0
      ? [`${duplicates} calls were charged more than once, ${unnamed} of them without having been named in doubt`]
      : []),
    ...(t.charged > t.calls
      ? [`the journal has ${t.charged - t.calls} charges beyond the ${t.calls} calls they answer`]
      : []),
    ...(unmatched > 0 ? [`journal and bill differ in ${unmatched} lines`] : []),
    ...(unpriced > 0 ? [`${unpriced} charges are of a model without a price here`] : []),
  ];
}
