"""Recurrent subnetworks: their steps as the body of an `rf.Loop`."""
